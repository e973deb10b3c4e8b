"""Constructs the operator's pages about retirements, supply and the catalogue."""

from tonne.apps.backoffice.catalogue.bundle_page import BundlePage
from tonne.apps.backoffice.catalogue.catalogue_page import CataloguePage
from tonne.apps.backoffice.catalogue.import_page import ImportPage
from tonne.apps.backoffice.catalogue.pictures_page import PicturesPage
from tonne.apps.backoffice.catalogue.staged_imports import StagedImports
from tonne.apps.backoffice.supply.lot_page import LotPage
from tonne.apps.backoffice.supply.supply_page import SupplyPage
from tonne.apps.backoffice.supply.work_list_page import RetirementDeskPage
from tonne.apps.dashboard.section import OperatorSection
from tonne.apps.wiring.parts import Parts


def supply_desk(parts: Parts) -> tuple[OperatorSection, ...]:
    imports = StagedImports(parts.database, parts.settings)
    return (
        RetirementDeskPage(*parts.page, imports).section(),
        SupplyPage(*parts.page, imports, parts.catalogues).section(),
        CataloguePage(*parts.page, imports).section(),
        ImportPage(*parts.page, imports).section(),
        *(page(*parts.page).section() for page in (LotPage, BundlePage, PicturesPage)),
    )
