"""The operator's work list: parcels of held lots that are to be retired at their registries, by hand."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tonne.base.clock import to_wire
from tonne.base.mass import GRAMS_PER_TONNE, format_tonnes
from tonne.base.scope import Mode
from tonne.db.pool import Connection
from tonne.retirements.model import serial_range
from tonne.sheets.read_sheet import MAX_ROWS

EXPORT_COLUMNS = (
    "parcel_id",
    "registry",
    "registry_project_id",
    "project_name",
    "vintage",
    "serial_block",
    "first_number",
    "last_number",
    "kilograms",
    "quantity",
    "beneficiary",
    "opened_at",
)
# A unit may be shared by many; more names than this fit on no registry's form.
_NAMED = 10
# What a spreadsheet may take for the beginning of a formula, in wide forms too, or skip to get at one.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@dataclass(frozen=True, slots=True)
class Task:
    """One parcel to retire. `beneficiary` is in whose name, `on_behalf_of` are those whose orders have a part of it."""

    parcel_id: str
    registry: str
    registry_project_id: str
    project_name: str
    vintage: int
    serial_block: str
    first_number: int
    last_number: int
    # Where in its first tonne it begins: 0, except where the registry retires less than a tonne.
    start_grams: int
    quantity_grams: int
    beneficiary: str
    on_behalf_of: list[str]
    opened_at: datetime

    @property
    def serials(self) -> str:
        return serial_range(self.serial_block, self.first_number, self.start_grams, self.quantity_grams)

    @property
    def named(self) -> str:
        """What to write into the registry's form: `Tonne, on behalf of Ada; Berta` for a unit that several share."""
        if self.on_behalf_of == [self.beneficiary]:
            return self.beneficiary
        others = len(self.on_behalf_of) - _NAMED
        names = "; ".join(self.on_behalf_of[:_NAMED]) + (f"; and {others} others" if others > 0 else "")
        return f"{self.beneficiary}, on behalf of {names}"

    @property
    def kilograms(self) -> str:
        """Which part of its serials, where the registry retires less than a tonne; else empty."""
        end_grams = self.start_grams + self.quantity_grams
        if self.start_grams == 0 and end_grams % GRAMS_PER_TONNE == 0:
            return ""
        first_kg = self.start_grams // 1000 + 1
        last_kg = (end_grams - 1) % GRAMS_PER_TONNE // 1000 + 1
        return f"from kg {first_kg} of {self.first_number} to kg {last_kg} of {self.last_number}"


LIST_TO_RETIRE = """
SELECT parcel.id AS parcel_id, project.registry, project.registry_project_id, project.name AS project_name,
       lot.vintage, block.block AS serial_block, lot.first_number + parcel.start_grams / 1000000 AS first_number,
       lot.first_number + (parcel.start_grams + parcel.quantity_grams - 1) / 1000000 AS last_number,
       parcel.start_grams % 1000000 AS start_grams, parcel.quantity_grams, parcel.beneficiary, parcel.opened_at,
       ARRAY(SELECT DISTINCT share.beneficiary FROM shares share
             WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id ORDER BY share.beneficiary) AS on_behalf_of
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN serial_blocks block ON block.number = lot.serial_block
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE parcel.mode = $1 AND parcel.status = 'to_retire'
ORDER BY parcel.opened_at, parcel.lot_id, parcel.start_grams LIMIT $2
"""


async def list_tasks_any_account(connection: Connection, mode: Mode) -> list[Task]:
    """Those that wait longest first, and no more than one file can bring back."""
    return [Task(**row) for row in await connection.fetch(LIST_TO_RETIRE, mode, MAX_ROWS)]


def export_tasks(tasks: Iterable[Task]) -> bytes:
    """As CSV, with a byte order mark: without it spreadsheets misread names that are not plain ASCII."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(EXPORT_COLUMNS)
    for task in tasks:
        cells = (
            *(task.parcel_id, task.registry, task.registry_project_id, task.project_name, str(task.vintage)),
            *(task.serial_block, str(task.first_number), str(task.last_number), task.kilograms),
            *(format_tonnes(task.quantity_grams), task.named, to_wire(task.opened_at)),
        )
        writer.writerow([escape_formula(cell) for cell in cells])
    return text.getvalue().encode("utf-8-sig")


def escape_formula(cell: str) -> str:
    """A name that begins like a formula would be run by a spreadsheet that opens the file: a quote mark prevents it."""
    return f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell
