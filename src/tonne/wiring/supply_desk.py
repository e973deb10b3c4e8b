"""Constructs the operator's pages about retirements, supply and the catalogue."""

from tonne.backoffice.bundle_page import BundlePage
from tonne.backoffice.catalogue_page import CataloguePage
from tonne.backoffice.confirmed_step import ConfirmedSteps
from tonne.backoffice.import_page import ImportPage
from tonne.backoffice.lot_page import LotPage
from tonne.backoffice.pictures_page import PicturesPage
from tonne.backoffice.retirement_desk_page import RetirementDeskPage
from tonne.backoffice.staged_imports import StagedImports
from tonne.backoffice.supply_page import SupplyPage
from tonne.dashboard.section import OperatorSection
from tonne.wiring.parts import Parts


def supply_desk(parts: Parts) -> tuple[OperatorSection, ...]:
    database, layout, notifier = parts.database, parts.dashboard.layout, parts.notifier
    clock, settings = parts.clock, parts.settings
    imports = StagedImports(database, settings)
    return (
        RetirementDeskPage(database, layout, imports, clock=clock, settings=settings, notifier=notifier).section(),
        SupplyPage(database, layout, imports, parts.catalogues, clock=clock).section(),
        LotPage(database, layout, ConfirmedSteps(database, layout, notifier), clock=clock).section(),
        CataloguePage(database, layout, imports, clock=clock, settings=settings).section(),
        BundlePage(database, layout, clock=clock).section(),
        PicturesPage(database, layout, clock=clock).section(),
        ImportPage(database, layout, imports, clock=clock, notifier=notifier).section(),
    )
