"""The retirement desk: what is to be retired at the registries, confirmations, and pooled units."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from tonne.apps.backoffice.catalogue.staged_import_store import ImportKind
from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES, StagedImports
from tonne.apps.backoffice.catalogue.uploads import read_upload
from tonne.apps.backoffice.supply.confirmation_form import LINES_PER_PAGE, add_faults, read_desk_form, seen
from tonne.apps.backoffice.supply.work_list_groups import group_tasks
from tonne.apps.backoffice.supply.work_list_store import (
    ParcelOrder,
    is_open_unit_any_account,
    list_parcel_orders_any_account,
)
from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer, existing
from tonne.platform.events.notification import WorkKind
from tonne.platform.http.route import Response
from tonne.platform.web.render import see_other
from tonne.supply.retirements.confirmations.work_list import Task, export_tasks, list_tasks_any_account
from tonne.supply.stock.errors import UnitNotOpen
from tonne.supply.stock.parcels.units import Unit, close_unit_any_account, list_units_any_account

# Parcels that a page reads. The export has all of them.
MAX_PARCELS_READ = 2000
MAX_UNITS = 100
# Orders that are named in a line.
ORDERS_SHOWN = 5
_CSV = b"text/csv; charset=utf-8"
PROJECT = "/retirements/projects/{project_id}"
UNIT = "/retirements/units/{unit_id}/close"


class RetirementDeskPage(DashboardPage, frozen=True):
    imports: StagedImports

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={
                "/retirements": self.show,
                "/retirements/export": self.export,
                PROJECT: self.show_project,
                UNIT: self.show_close,
            },
            forms={"/retirements/import": self.upload, PROJECT: self.confirm, UNIT: self.close},
            errors=(UnitNotOpen,),
            uploads={"/retirements/import": MAX_UPLOAD_BYTES + 64 * 1024},
        )

    async def export(self, viewer: OperatorViewer) -> Response:
        """The work list, to be filled in and uploaded."""
        tasks = await self.database.run(list_tasks_any_account, viewer.mode)
        name = f"retirements-{viewer.mode}-{self.clock():%Y-%m-%d}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return Response(export_tasks(tasks), media_type=_CSV, headers=headers)

    async def upload(self, viewer: OperatorViewer, form: Form) -> Response:
        file = read_upload(viewer.request, form, "confirmations", "tonne retirement import")
        if file is None:
            return await self.show(viewer, form)
        kind, now = ImportKind.CONFIRMATIONS, self.clock()
        import_id = await self.imports.stage(viewer.mode, kind, [file], actor=viewer.actor, now=now)
        return see_other(f"{viewer.base}/imports/{import_id}")

    async def confirm(self, viewer: OperatorViewer, form: Form) -> Response:
        """Check the confirmations, and show what they would do. Nothing is recorded yet."""
        now = self.clock()
        rows = read_desk_form(form, now)
        if not form.faults:
            add_faults(form, rows, await self.imports.check_confirmations(viewer.mode, rows, now=now))
        if form.faults:
            return await self.show_project(viewer, form, chosen=form.fields.get("line", ()))
        reference = form.value("reference") or None
        import_id = await self.imports.stage_confirmations(viewer.mode, rows, reference, actor=viewer.actor, now=now)
        return see_other(f"{viewer.base}/imports/{import_id}")

    async def show_close(self, viewer: OperatorViewer) -> Response:
        unit = await self._unit(viewer)
        return self.layout.page(viewer, "operator_unit_close.html", unit=unit, service_name=self.settings.seller_name)

    async def close(self, viewer: OperatorViewer, _: Form) -> Response:
        unit_id = viewer.request.path("unit_id")
        async with self.database.transaction() as tx:
            if not await is_open_unit_any_account(tx, viewer.mode, unit_id):
                raise UnitNotOpen("The unit is not open any more. Go back to the retirement desk.")
            await close_unit_any_account(
                tx, unit_id, service_name=self.settings.seller_name, actor=viewer.actor, now=self.clock()
            )
        self.notifier.notify(WorkKind.POOLED_UNITS)
        return see_other(f"{viewer.base}/retirements?done=unit_closed")

    async def _unit(self, viewer: OperatorViewer) -> Unit:
        units = await self.database.run(list_units_any_account, viewer.mode)
        unit_id = viewer.request.path("unit_id")
        return existing(next((each for each in units if each.id == unit_id and each.status == "open"), None))

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        now = self.clock()
        async with self.database.connection() as connection:
            tasks = await list_tasks_any_account(connection, viewer.mode, max_parcels=MAX_PARCELS_READ)
            units = await list_units_any_account(connection, viewer.mode)
        parcel_count = sum(len(task.parcel_ids) for task in tasks)
        open_units = [unit for unit in units if unit.status == "open"]
        return self.layout.page(
            viewer,
            "operator_retirements.html",
            form,
            groups=group_tasks(tasks),
            line_count=len(tasks),
            grams=sum(task.quantity_grams for task in tasks),
            oldest=min((task.opened_at for task in tasks), default=None),
            is_more=parcel_count >= MAX_PARCELS_READ,
            units=[(unit, time_left(unit.close_at, now)) for unit in open_units[:MAX_UNITS]],
            unit_count=len(open_units),
            due_days=self.settings.retirement_days,
            late_before=now - timedelta(days=self.settings.retirement_days),
        )

    async def show_project(
        self, viewer: OperatorViewer, form: Form | None = None, chosen: Sequence[str] = ()
    ) -> Response:
        form = form or Form()
        project_id, after = viewer.request.path("project_id"), viewer.request.query("after")[0]
        async with self.database.connection() as connection:
            tasks = await list_tasks_any_account(
                connection, viewer.mode, project_id=project_id, max_parcels=MAX_PARCELS_READ
            )
            start = next((i + 1 for i, task in enumerate(tasks) if task.parcel_id == after), 0)
            page = tasks[start : start + LINES_PER_PAGE]
            orders = await list_parcel_orders_any_account(
                connection, viewer.mode, [id_ for task in page for id_ in task.parcel_ids]
            )
        if not tasks and not form.faults:
            # All of it is confirmed.
            return see_other(f"{viewer.base}/retirements")
        return self.layout.page(
            viewer,
            "operator_retirement_project.html",
            form,
            project_id=project_id,
            tasks=[(task, seen(task), _of_task(task, orders)) for task in page],
            total_grams=sum(task.quantity_grams for task in tasks),
            line_count=len(tasks),
            next_after=page[-1].parcel_id if start + LINES_PER_PAGE < len(tasks) else None,
            chosen=set(chosen),
            orders_shown=ORDERS_SHOWN,
            entered=form,
            retired_on=form.value("retired_on") or f"{self.clock():%Y-%m-%d}",
        )


def _of_task(task: Task, orders: Sequence[ParcelOrder]) -> list[ParcelOrder]:
    """The orders of a line, each once."""
    ids = set(task.parcel_ids)
    return list({order.order_id: order for order in orders if order.parcel_id in ids}.values())


def time_left(until: datetime | None, now: datetime) -> str:
    """In words: `in 12 days`, `in 5 hours`, `now`."""
    if until is None:
        return ""
    minutes = int((until - now) / timedelta(minutes=1))
    for size, word in ((1440, "day"), (60, "hour"), (1, "minute")):
        count = minutes // size
        if count >= 1:
            return f"in {count} {word if count == 1 else word + 's'}"
    return "now"
