"""Catalogue and prices: bundles with margins, exchange rates with their age, and imports with a preview.

A prepared import shows what it would change, its errors, and after it was applied, what it did and what is next.
"""

from datetime import timedelta

from tonne.apps.backoffice.catalogue import staged_imports
from tonne.apps.backoffice.catalogue.bundle_margins import margin_of, read_costs
from tonne.apps.backoffice.catalogue.row_differences import file_difference
from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES, ImportKind, StagedImports
from tonne.apps.backoffice.supply.work_list_store import ParcelOrder, list_parcel_orders_any_account
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Mode, is_id
from tonne.platform.web.render import see_other
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.catalogue.imports.rate_changes import ACCEPT_OPTION
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.apply_price_changes import list_changes
from tonne.selling.catalogue.store import load_catalogue
from tonne.supply.retirements.confirmations.rows import ConfirmationRow

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
            by=viewer.actor.at(self.clock()),
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


IMPORT = "/imports/{import_id}"
MAX_ERRORS_SHOWN = 200
MAX_ORDERS_SHOWN = 50
# The page that an import belongs to, and its entry in the menu.
PAGES = {
    staged_imports.ImportKind.CONFIRMATIONS: "retirements",
    staged_imports.ImportKind.CONFIRMED_LINES: "retirements",
    staged_imports.ImportKind.LOTS: "supply",
    staged_imports.ImportKind.CATALOGUE: "catalogue",
}


class ImportPage(DashboardPage, frozen=True):
    imports: staged_imports.StagedImports

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={IMPORT: self.show},
            forms={
                f"{IMPORT}/apply": self.apply,
                f"{IMPORT}/accept-rates": self.accept_rates,
                f"{IMPORT}/discard": self.discard,
            },
            errors=(staged_imports.StagedImportNotFound, staged_imports.StagedImportApplied),
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        staged = await self._find(viewer)
        if staged.applied_at is not None:
            return await self._result(viewer, staged)
        rehearsal = await self.imports.rehearse(staged, by=viewer.actor.at(self.clock()))
        return await self._preview(viewer, staged, rehearsal)

    async def apply(self, viewer: OperatorViewer, _: Form) -> Response:
        staged = await self._find(viewer)
        if staged.applied_at is None:
            done = await self.imports.apply(staged, by=viewer.actor.at(self.clock()))
            if done.result is None:
                # Something has changed since the preview: the errors are new.
                return await self._preview(viewer, staged, done)
            self.notifier.notify()
        return see_other(f"{viewer.base}/imports/{staged.id}")

    async def accept_rates(self, viewer: OperatorViewer, form: Form) -> Response:
        """Shows the preview again, with exchange rates accepted that differ much from the previous ones."""
        staged = await self._find(viewer)
        if not form.is_checked("allow_large_change"):
            form.fail("allow_large_change", "Tick the box if the rates are right. If not, correct the file.")
            rehearsal = await self.imports.rehearse(staged, by=viewer.actor.at(self.clock()))
            return await self._preview(viewer, staged, rehearsal, form)
        await self.database.commit(staged_imports.allow_large_change, viewer.mode, staged.id)
        return see_other(f"{viewer.base}/imports/{staged.id}")

    async def discard(self, viewer: OperatorViewer, _: Form) -> Response:
        staged = await self._find(viewer)
        await self.database.commit(staged_imports.delete_staged, viewer.mode, staged.id)
        return see_other(f"{viewer.base}/{PAGES[staged.kind]}?done=import_discarded")

    async def _find(self, viewer: OperatorViewer) -> staged_imports.StagedImport:
        import_id, staged = viewer.request.path("import_id"), None
        if is_id("imp", import_id):
            staged = await self.database.run(staged_imports.find_staged, viewer.mode, import_id)
        if staged is None:
            raise staged_imports.StagedImportNotFound
        return staged

    async def _preview(
        self,
        viewer: OperatorViewer,
        staged: staged_imports.StagedImport,
        rehearsal: staged_imports.Rehearsal,
        form: Form | None = None,
    ) -> Response:
        result = rehearsal.result
        orders = await self._orders(viewer, [] if result is None else result.parcel_ids)
        lines: list[ConfirmationRow] = []
        if result is not None:
            async with self.database.connection() as connection:
                lines = staged_imports.confirmed_rows(staged, await staged_imports.read_files(connection, staged))
        return self.layout.page(
            viewer,
            "operator_import.html",
            form,
            here=PAGES[staged.kind],
            staged=staged,
            back=PAGES[staged.kind],
            result=result,
            refusal=rehearsal.refusal,
            errors=rehearsal.errors[:MAX_ERRORS_SHOWN],
            error_count=len(rehearsal.errors),
            acceptable_count=sum(each.accept_option == ACCEPT_OPTION for each in rehearsal.errors),
            differences=[file_difference(each) for each in rehearsal.report.files if each] if rehearsal.report else [],
            orders=orders[:MAX_ORDERS_SHOWN],
            order_count=len(orders),
            lines=lines[:MAX_ORDERS_SHOWN],
            line_count=len(lines),
        )

    async def _result(self, viewer: OperatorViewer, staged: staged_imports.StagedImport) -> Response:
        result = staged_imports.read_result(staged)
        orders = await self._orders(viewer, [] if result is None else result.parcel_ids)
        return self.layout.page(
            viewer,
            "operator_import_done.html",
            here=PAGES[staged.kind],
            staged=staged,
            result=result,
            back=PAGES[staged.kind],
            orders=orders[:MAX_ORDERS_SHOWN],
            order_count=len(orders),
            complete_count=sum(order.status == "complete" for order in orders),
        )

    async def _orders(self, viewer: OperatorViewer, parcel_ids: list[str]) -> list[ParcelOrder]:
        """The orders of these parcels, each once."""
        if not parcel_ids:
            return []
        found = await self.database.run(list_parcel_orders_any_account, viewer.mode, parcel_ids)
        return list({order.order_id: order for order in found}.values())
