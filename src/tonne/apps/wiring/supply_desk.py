"""Constructs the operator's pages about retirements, supply and the catalogue."""

from tonne.apps.backoffice.catalogue.bundle_page import BundlePage
from tonne.apps.backoffice.catalogue.catalogue_page import CataloguePage
from tonne.apps.backoffice.catalogue.import_page import ImportPage
from tonne.apps.backoffice.catalogue.pictures_page import PicturesPage
from tonne.apps.backoffice.catalogue.staged_imports import StagedImports
from tonne.apps.backoffice.money.confirmed_step import ConfirmedSteps
from tonne.apps.backoffice.supply.lot_page import LotPage
from tonne.apps.backoffice.supply.supply_page import SupplyPage
from tonne.apps.backoffice.supply.work_list_page import RetirementDeskPage
from tonne.apps.dashboard.section import OperatorSection
from tonne.apps.wiring.parts import Parts


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
