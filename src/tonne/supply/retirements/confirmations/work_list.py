"""The operator's work list: parcels of held lots, to be retired at their registries by hand.

Parcels of one beneficiary in one lot are one line, however many orders they belong to: one retirement at the registry.
"""

import asyncio
import csv
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import asdict

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.read_sheet import MAX_ROWS
from tonne.platform.events.audit import record as audit
from tonne.platform.process.progress import progress
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import By, Mode, replace, to_wire
from tonne.supply.stock.parcels import exported_parcels
from tonne.supply.stock.serial_runs import MAX_RUNS, Numbers, format_runs, join_runs
from tonne_verify.formulas import escape_formula
from tonne_verify.serials.parse import stored_units
from tonne_verify.serials.units import UnitRange, show

_AT_ONCE = 250
EXPORT_COLUMNS = (
    "parcel_id",
    "registry",
    "registry_project_id",
    "project_name",
    "vintage",
    # From the first to the last unit.
    "serial",
    # The numbers of all runs between the two, such as `101 to 300; 351`.
    "serials",
    "quantity",
    "parcels",
    "beneficiary",
    "opened_at",
    # Empty, unless the line is in an earlier file.
    "exported_at",
    "exported_by",
    # Empty, for the operator to fill in.
    "retired_on",
    "retirement_url",
    # Only if the registry retired other serials than proposed, or a part.
    "retired_serials",
)
# Registries limit the length of this field, and a unit may be shared by many.
_MAX_NAMES = 10


class Task(Struct, frozen=True):
    """Credits to retire. `on_behalf_of` are the beneficiaries of the orders that have a share of them.

    A line of several parcels has the id of the first one. `runs` are its serial numbers, from `first_number` to
    `last_number`, perhaps with gaps. `exported_by` has the line in a file, and may be retiring it.
    """

    parcel_id: str
    lot_id: str
    registry: str
    registry_project_id: str
    project_name: str
    vintage: int
    # The serial of the lot.
    lot_serial: str
    unit_grams: int
    first_number: int
    last_number: int
    quantity_grams: int
    beneficiary: str
    in_service_name: bool
    on_behalf_of: list[str]
    opened_at: datetime
    parcel_ids: list[str] = field(default_factory=list)
    runs: list[Numbers] = field(default_factory=list)
    project_id: str = ""
    exported_at: datetime | None = None
    exported_by: str | None = None

    @property
    def serials(self) -> str:
        """The serials of all runs, as the registry finds them."""
        return "; ".join(show(self._lot, *run) for run in self.runs)

    @property
    def serial(self) -> str:
        """From the first to the last unit, perhaps with others between them."""
        return show(self._lot, self.first_number, self.last_number)

    @property
    def _lot(self) -> UnitRange:
        return stored_units(self.registry, self.lot_serial, self.unit_grams)

    @property
    def named(self) -> str:
        """The beneficiary for the registry's form: `Tonne, on behalf of Ada; Berta` for a shared unit."""
        if self.on_behalf_of == [self.beneficiary]:
            return self.beneficiary
        others = len(self.on_behalf_of) - _MAX_NAMES
        names = "; ".join(self.on_behalf_of[:_MAX_NAMES]) + (f"; and {others} others" if others > 0 else "")
        return f"{self.beneficiary}, on behalf of {names}"


# Of a parcel: whether the payments of all orders that have a share of it are disputed. It is then held.
IS_HELD = """
coalesce((
    SELECT bool_and(EXISTS (SELECT FROM orders WHERE orders.account_id = share.account_id
                              AND orders.id = share.order_id AND orders.has_open_dispute))
    FROM shares share WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id), false)
"""
# A pooled unit has waited for fractions before.
READY_SINCE = "coalesce(parcel.closed_at, parcel.opened_at)"
# The fields of Task.
TASK = """
parcel.id AS parcel_id, parcel.lot_id, parcel.project_id, project.registry, project.registry_project_id,
       project.name AS project_name,
       lot.vintage, lot.serial AS lot_serial, lot.unit_grams,
       lot.first_number + parcel.start_grams / lot.unit_grams AS first_number,
       lot.first_number + (parcel.start_grams + parcel.quantity_grams) / lot.unit_grams - 1 AS last_number,
       parcel.quantity_grams, parcel.beneficiary, parcel.in_service_name, parcel.opened_at,
       parcel.exported_at, parcel.exported_by,
       ARRAY(SELECT DISTINCT share.beneficiary FROM shares share
             WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id ORDER BY share.beneficiary) AS on_behalf_of
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
"""
# Not what a gateway retires at the registry: a person would retire it a second time.
IS_FOR_DESK = """
parcel.instruction_id IS NULL
AND (lot.registry_account IS NULL OR parcel.desk_note IS NOT NULL OR parcel.exported_at IS NOT NULL)
"""
LIST_TO_RETIRE = f"""
SELECT {TASK}
WHERE parcel.mode = $1 AND parcel.status = 'to_retire' AND ($3::text IS NULL OR parcel.project_id = $3)
  AND ($4::text[] IS NULL OR parcel.id = ANY ($4)) AND (NOT $5 OR parcel.exported_at IS NULL)
  AND {IS_FOR_DESK} AND NOT {IS_HELD}
ORDER BY parcel.opened_at, parcel.lot_id, parcel.start_grams LIMIT $2
"""


async def list_tasks_any_account(
    connection: Connection,
    mode: Mode,
    *,
    project_id: str | None = None,
    max_parcels: int = MAX_ROWS,
    ids: Sequence[str] | None = None,
    is_new: bool = False,
) -> list[Task]:
    """Oldest first, of at most as many parcels as one file may have lines when it is imported.

    `ids`: of these only. `is_new`: only those that no file has.
    """
    tasks = []
    rows = await connection.fetch(LIST_TO_RETIRE, mode, max_parcels, project_id, ids, is_new)
    for number, row in enumerate(rows, 1):
        tasks.append(Task(**row))
        if number % _AT_ONCE == 0:
            # Others need the event loop.
            await asyncio.sleep(0)
    return merge_tasks(tasks)


def merge_tasks(tasks: Iterable[Task]) -> list[Task]:
    """One line for all parcels of a beneficiary in a lot."""
    groups: dict[tuple[object, ...], list[Task]] = {}
    for task in tasks:
        groups.setdefault((task.lot_id, task.in_service_name, task.named, task.exported_at), []).append(task)
    return [line for group in groups.values() for line in _lines(group)]


def _lines(group: Sequence[Task]) -> Iterator[Task]:
    """Usually one. More if the serials have so many gaps that a cell could not hold them."""
    ordered = sorted(group, key=lambda task: task.first_number)
    part: list[Task] = []
    gaps = 0
    for task in ordered:
        gaps += bool(part) and task.first_number != part[-1].last_number + 1
        if gaps >= MAX_RUNS:
            yield _merged(part)
            part, gaps = [], 0
        part.append(task)
    yield _merged(part)


def _merged(parts: Sequence[Task]) -> Task:
    first = parts[0]
    return replace(
        first,
        last_number=parts[-1].last_number,
        quantity_grams=sum(part.quantity_grams for part in parts),
        on_behalf_of=sorted({name for part in parts for name in part.on_behalf_of}),
        opened_at=min(part.opened_at for part in parts),
        parcel_ids=[part.parcel_id for part in parts],
        runs=join_runs((part.first_number, part.last_number) for part in parts),
    )


async def take_tasks_any_account(tx: Connection, mode: Mode, *, by: By) -> list[Task]:
    """The lines that are in no file yet. From now on they are in one: no later export has them, and no gateway."""
    new = [id_ for task in await list_tasks_any_account(tx, mode, is_new=True) for id_ in task.parcel_ids]
    # Of two exports at once, each takes what the other one has not.
    ids = await exported_parcels.mark_any_account(tx, mode, new, by)
    tasks = await list_tasks_any_account(tx, mode, ids=ids)
    if ids:
        await audit.record(tx, None, "work_list.exported", by=by, mode=mode, lines=len(tasks), parcels=len(ids))
    return [replace(task, exported_at=None, exported_by=None) for task in tasks]


async def put_back_tasks_any_account(tx: Connection, mode: Mode, line_ids: Collection[str], *, by: By) -> list[Task]:
    """Nobody has retired these lines, or will: the next export has them again. Returns those that were in a file."""
    tasks = [
        task
        for task in await list_tasks_any_account(tx, mode)
        if task.exported_at is not None and task.parcel_id in line_ids
    ]
    await exported_parcels.clear_any_account(tx, mode, [id_ for task in tasks for id_ in task.parcel_ids])
    entries = [
        audit.Entry(
            action="work_list.put_back",
            subject_id=task.parcel_id,
            mode=mode,
            details={"serials": task.serials, "exported_by": task.exported_by, "exported_at": task.exported_at},
        )
        for task in tasks
    ]
    await audit.record_all(tx, entries, by=by)
    return tasks


def export_tasks(tasks: Sequence[Task]) -> bytes:
    """CSV with a byte order mark: without it, spreadsheets misread names that are not ASCII."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(EXPORT_COLUMNS)
    with progress("Writing the work list", len(tasks)) as advance:
        for task in tasks:
            cells = {
                **asdict(task),
                "serial": task.serial,
                "serials": format_runs(task.runs),
                "parcels": len(task.parcel_ids),
                "retired_serials": "",
                "quantity": format_tonnes(task.quantity_grams),
                "beneficiary": task.named,
                "opened_at": to_wire(task.opened_at),
                "retired_on": "",
                "retirement_url": "",
                "exported_at": "" if task.exported_at is None else to_wire(task.exported_at),
                "exported_by": task.exported_by or "",
            }
            writer.writerow([escape_formula(str(cells[column])) for column in EXPORT_COLUMNS])
            advance(1)
    return text.getvalue().encode("utf-8-sig")
