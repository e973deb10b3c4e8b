"""A prepared import: what it would change, its errors, and after it was applied, what it did and what is next."""

from tonne.apps.backoffice.catalogue import staged_imports
from tonne.apps.backoffice.catalogue.row_differences import file_difference
from tonne.apps.backoffice.supply.work_list_store import ParcelOrder, list_parcel_orders_any_account
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.platform.http.route import Response
from tonne.platform.values.context import is_id
from tonne.platform.web.render import see_other
from tonne.selling.catalogue.imports.rate_changes import ACCEPT_OPTION
from tonne.supply.retirements.confirmations.rows import ConfirmationRow
from tonne.supply.stock.serial_runs import format_runs

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
        rehearsal = await self.imports.rehearse(staged, actor=viewer.actor, now=self.clock())
        return await self._preview(viewer, staged, rehearsal)

    async def apply(self, viewer: OperatorViewer, _: Form) -> Response:
        staged = await self._find(viewer)
        if staged.applied_at is None:
            done = await self.imports.apply(staged, actor=viewer.actor, now=self.clock())
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
            rehearsal = await self.imports.rehearse(staged, actor=viewer.actor, now=self.clock())
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
            lines=[(line, format_runs(line.numbers)) for line in lines[:MAX_ORDERS_SHOWN]],
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
