"""Catalogue and prices: bundles with margins, exchange rates with their age, and imports with a preview."""

from datetime import timedelta

from tonne.apps.backoffice.catalogue.bundle_margins import margin_of, read_costs
from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES, ImportKind, StagedImports
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Mode
from tonne.platform.web.render import see_other
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.apply_price_changes import list_changes
from tonne.selling.catalogue.store import load_catalogue

CHANGES_SHOWN = 20
# The field of each file in the form.
FILES = {kind: kind.removesuffix(".csv") for kind in FileKind}


class CataloguePage(DashboardPage, frozen=True):
    imports: StagedImports

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/catalogue": self.show},
            forms={"/catalogue/import": self.upload},
            uploads={"/catalogue/import": MAX_UPLOAD_BYTES + 64 * 1024},
        )

    async def upload(self, viewer: OperatorViewer, form: Form) -> Response:
        sent = {kind: viewer.request.file(field) for kind, field in FILES.items()}
        files = [SheetFile(kind, file.content) for kind, file in sent.items() if file is not None and file.content]
        currency = form.value("currency").upper() or None
        if not files:
            form.fail("files", "Choose at least one CSV file.")
        elif sum(len(file.content) for file in files) > MAX_UPLOAD_BYTES:
            megabytes = MAX_UPLOAD_BYTES // 1024 // 1024
            form.fail("files", f"The files are larger than {megabytes} MB. Use `tonne catalogue import`.")
        if currency is not None and currency not in DECIMALS:
            form.fail("currency", "Enter an ISO 4217 code, such as EUR.")
        if form.faults:
            return await self.show(viewer, form)
        import_id = await self.imports.stage(
            viewer.mode,
            ImportKind.CATALOGUE,
            files,
            actor=viewer.actor,
            now=self.clock(),
            allow_large_change=form.is_checked("allow_large_change"),
            currency=currency,
        )
        return see_other(f"{viewer.base}/imports/{import_id}")

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form = form or Form()
        now = self.clock()
        async with self.database.snapshot() as connection:
            catalogue = await load_catalogue(connection, viewer.mode, "")
            costs = await read_costs(connection, viewer.mode)
            changes = await list_changes(connection, viewer.mode, CHANGES_SHOWN)
        bundles = [] if catalogue is None else list(catalogue.bundles.values())
        max_age = timedelta(days=self.settings.rate_max_age_days)
        return self.layout.page(
            viewer,
            "operator_catalogue.html",
            form,
            catalogue=catalogue,
            bundles=[margin_of(bundle, catalogue, costs) for bundle in bundles] if catalogue else [],
            names={bundle.id: bundle.name for bundle in bundles},
            defaults=_defaults(catalogue),
            rates=[
                (rate, (now - rate.as_of).days, viewer.mode is Mode.LIVE and now - rate.as_of > max_age)
                for rate in (catalogue.rates.values() if catalogue else ())
            ],
            max_age_days=self.settings.rate_max_age_days,
            minimums=self.settings.minimum_orders,
            changes=changes,
            files=FILES,
            entered=form,
        )


def _defaults(catalogue: Catalogue | None) -> list[tuple[str, str]]:
    """The bundles of the default selection with their percentages."""
    if catalogue is None or not catalogue.default_selection:
        return []
    return [
        (catalogue.bundles[each["bundle_id"]].name, str(each.get("percentage") or ""))
        for each in catalogue.default_selection
        if each["bundle_id"] in catalogue.bundles
    ]
