"""The retirement desk: what is to be retired at the registries, confirmations, and pooled units.

The form contains each line as it was shown. A line may have grown since: orders that came later are not confirmed.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Annotated

import msgspec
from msgspec import Struct

from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES, ImportKind, StagedImports
from tonne.apps.backoffice.catalogue.uploads import read_upload
from tonne.apps.backoffice.supply import work_list_store
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer, existing
from tonne.platform.documents.sheets.columns import CellError
from tonne.platform.events.notification import WorkKind
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Response
from tonne.platform.web.render import see_other
from tonne.selling.users.names import name_actors
from tonne.supply.retirements.confirmations.confirm_lines import LineFault
from tonne.supply.retirements.confirmations.rows import ConfirmationRow, parse_registry_url
from tonne.supply.retirements.confirmations.work_list import (
    Task,
    export_tasks,
    list_tasks_any_account,
    take_tasks_any_account,
)
from tonne.supply.stock.errors import UnitNotOpen
from tonne.supply.stock.lots.lots import latest_day
from tonne.supply.stock.parcels.units import Unit, close_unit_any_account, list_units_any_account

# Three fields each; a form may have 200.
LINES_PER_PAGE = 40
MAX_REFERENCE = 200
_Text = Annotated[str, msgspec.Meta(pattern="^[^\0]+$")]
_Number = Annotated[int, msgspec.Meta(ge=0, lt=10**15)]


class SeenLine(msgspec.Struct, array_like=True, frozen=True):
    """A line of the work list, as the page has shown it."""

    parcel_id: _Text
    serial: _Text
    runs: Annotated[list[tuple[_Number, _Number]], msgspec.Meta(min_length=1)]
    beneficiary: str

    def confirmed(self, number: int, retired_on: date, retirement_url: str) -> ConfirmationRow:
        return ConfirmationRow(
            line=number,
            parcel_id=self.parcel_id,
            serial=self.serial,
            serials=self.runs,
            beneficiary=self.beneficiary,
            retired_on=retired_on,
            retirement_url=retirement_url,
        )


def seen(task: Task) -> str:
    """For a hidden field of the form."""
    return msgspec.json.encode(SeenLine(task.parcel_id, task.serial, task.runs, task.named)).decode()


def read_desk_form(form: Form, now: datetime) -> list[ConfirmationRow]:
    """The chosen lines, numbered from 1. None of them counts if the form has faults."""
    requested = set(form.fields.get("line", ()))
    lines = [
        line
        for name, values in form.fields.items()
        if name.startswith("seen_") and (line := _read_seen(values[0])) is not None
    ]
    chosen = [line for line in lines if form.is_checked("all") or line.parcel_id in requested]
    if not chosen:
        form.fail("", "Choose at least one line that you have retired.")
    day = read_day(form, now)
    reference = form.value("reference")
    if len(reference) > MAX_REFERENCE or not reference.isprintable():
        form.fail("reference", f"Use at most {MAX_REFERENCE} characters in one line.")
    urls = [_read_url(form, line.parcel_id) for line in chosen]
    return [line.confirmed(i, day, url) for i, (line, url) in enumerate(zip(chosen, urls, strict=True), 1)]


def add_faults(form: Form, rows: Sequence[ConfirmationRow], faults: Sequence[LineFault]) -> None:
    """Each fault beside the line that it is about."""
    for fault in faults:
        parcel_id = rows[fault.line - 1].parcel_id
        names = {"retirement_url": _url_field(form, parcel_id), "retired_on": "retired_on"}
        _fail(form, names.get(fault.column, f"line_{parcel_id}"), fault.message)


def _read_seen(text: str) -> SeenLine | None:
    try:
        return msgspec.json.decode(text, type=SeenLine)
    except msgspec.DecodeError:
        return None


def read_day(form: Form, now: datetime) -> date:
    """The latest day if the field has a fault."""
    latest = latest_day(now)
    try:
        day = date.fromisoformat(form.value("retired_on"))
    except ValueError:
        form.fail("retired_on", "Enter the day of the retirement, such as 2026-11-16.")
        return latest
    if day > latest:
        form.fail("retired_on", "This day is in the future. Enter the day of the retirement.")
    return day


def _read_url(form: Form, parcel_id: str) -> str:
    """The address of a line, or the one for all lines."""
    name = _url_field(form, parcel_id)
    url = form.value(name)
    if not url:
        form.fail(name, "Enter the address of the registry's page, here or beside each chosen line.")
        return url
    return read_page(form, name, url)


def read_page(form: Form, name: str, url: str) -> str:
    try:
        return parse_registry_url(url)
    except CellError as error:
        _fail(form, name, str(error))
        return url


def _url_field(form: Form, parcel_id: str) -> str:
    own = f"url_{parcel_id}"
    return own if form.value(own) else "retirement_url"


def _fail(form: Form, name: str, message: str) -> None:
    """Messages of an import begin in lower case: they follow the name of the column."""
    form.fail(name, message[:1].upper() + message[1:])


class ProjectGroup(Struct, frozen=True):
    """The credits of one project that are to be retired: `line_count` retirements at the registry."""

    project_id: str
    registry_project_id: str
    name: str
    line_count: int
    parcel_count: int
    grams: int
    opened_at: datetime


class RegistryGroup(Struct, frozen=True):
    registry: str
    projects: list[ProjectGroup]

    @property
    def grams(self) -> int:
        return sum(project.grams for project in self.projects)


def group_tasks(tasks: Iterable[Task]) -> list[RegistryGroup]:
    """Registries by name, within them the project that waits for the longest time first."""
    ordered = sorted(tasks, key=lambda task: (task.registry, task.project_id))
    groups = []
    for registry, of_registry in groupby(ordered, key=lambda task: task.registry):
        projects = [_project(list(each)) for _, each in groupby(of_registry, key=lambda task: task.project_id)]
        groups.append(RegistryGroup(registry, sorted(projects, key=lambda project: project.opened_at)))
    return groups


def _project(tasks: list[Task]) -> ProjectGroup:
    first = tasks[0]
    return ProjectGroup(
        first.project_id,
        first.registry_project_id,
        first.project_name,
        len(tasks),
        sum(len(task.parcel_ids) for task in tasks),
        sum(task.quantity_grams for task in tasks),
        min(task.opened_at for task in tasks),
    )


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
            forms={
                "/retirements/import": self.upload,
                "/retirements/take": self.take,
                PROJECT: self.confirm,
                UNIT: self.close,
            },
            errors=(UnitNotOpen,),
            uploads={"/retirements/import": MAX_UPLOAD_BYTES + 64 * 1024},
        )

    async def export(self, viewer: OperatorViewer) -> Response:
        """The whole work list, with what earlier files have."""
        return await self._file(viewer, await self.database.run(list_tasks_any_account, viewer.mode))

    async def take(self, viewer: OperatorViewer, _: Form) -> Response:
        """What no file has yet, to be filled in and uploaded."""
        by = viewer.actor.at(self.clock())
        return await self._file(viewer, await self.database.commit(take_tasks_any_account, viewer.mode, by=by))

    async def _file(self, viewer: OperatorViewer, tasks: Sequence[Task]) -> Response:
        name = f"retirements-{viewer.mode}-{self.clock():%Y-%m-%d}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return Response(await in_turn(export_tasks, tasks), media_type=_CSV, headers=headers)

    async def upload(self, viewer: OperatorViewer, form: Form) -> Response:
        file = read_upload(viewer.request, form, "confirmations", "tonne retirement import")
        if file is None:
            return await self.show(viewer, form)
        kind, now = ImportKind.CONFIRMATIONS, self.clock()
        import_id = await self.imports.stage(viewer.mode, kind, [file], by=viewer.actor.at(now))
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
        import_id = await self.imports.stage_confirmations(viewer.mode, rows, reference, by=viewer.actor.at(now))
        return see_other(f"{viewer.base}/imports/{import_id}")

    async def show_close(self, viewer: OperatorViewer) -> Response:
        unit = await self._unit(viewer)
        return self.layout.page(viewer, "operator_unit_close.html", unit=unit, service_name=self.settings.seller_name)

    async def close(self, viewer: OperatorViewer, _: Form) -> Response:
        unit_id = viewer.request.path("unit_id")
        async with self.database.transaction() as tx:
            if not await work_list_store.is_open_unit_any_account(tx, viewer.mode, unit_id):
                raise UnitNotOpen("The unit is not open any more. Go back to the retirement desk.")
            await close_unit_any_account(
                tx, unit_id, service_name=self.settings.seller_name, by=viewer.actor.at(self.clock())
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
            orders = await work_list_store.list_parcel_orders_any_account(
                connection, viewer.mode, [id_ for task in page for id_ in task.parcel_ids]
            )
            people = await name_actors(connection, [task.exported_by for task in page])
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
            people=people,
            chosen=set(chosen),
            orders_shown=ORDERS_SHOWN,
            entered=form,
            retired_on=form.value("retired_on") or f"{self.clock():%Y-%m-%d}",
        )


def _of_task(task: Task, orders: Sequence[work_list_store.ParcelOrder]) -> list[work_list_store.ParcelOrder]:
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
