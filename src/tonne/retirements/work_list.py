"""The operator's work list: parcels of held lots, to be retired at their registries by hand."""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime

from tonne.base.clock import to_wire
from tonne.base.mass import format_tonnes
from tonne.base.scope import Mode
from tonne.db.pool import Connection
from tonne.retirements.model import part_of_tonnes, serial_range
from tonne.sheets.formulas import escape_formula
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
    # Empty, for the operator to fill in.
    "retired_on",
    "retirement_url",
)
# Registries limit the length of this field, and a unit may be shared by many.
_MAX_NAMES = 10


@dataclass(frozen=True, slots=True)
class Task:
    """A parcel to retire. `on_behalf_of` are the beneficiaries of the orders that have a share of it."""

    parcel_id: str
    registry: str
    registry_project_id: str
    project_name: str
    vintage: int
    serial_block: str
    first_number: int
    last_number: int
    # Its start within the first tonne: 0, unless the registry retires less than a tonne.
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
        """The beneficiary for the registry's form: `Tonne, on behalf of Ada; Berta` for a shared unit."""
        if self.on_behalf_of == [self.beneficiary]:
            return self.beneficiary
        others = len(self.on_behalf_of) - _MAX_NAMES
        names = "; ".join(self.on_behalf_of[:_MAX_NAMES]) + (f"; and {others} others" if others > 0 else "")
        return f"{self.beneficiary}, on behalf of {names}"

    @property
    def kilograms(self) -> str:
        """The part of its serials, if the registry retires less than a tonne; otherwise empty."""
        part = part_of_tonnes(self.start_grams, self.quantity_grams)
        if part is None:
            return ""
        return f"from {part.unit} {part.first} of {self.first_number} to {part.unit} {part.last} of {self.last_number}"


# Parcels of orders whose payment is disputed are held, unless another order has a share of them.
LIST_TO_RETIRE = """
SELECT parcel.id AS parcel_id, project.registry, project.registry_project_id, project.name AS project_name,
       lot.vintage, coalesce(lot.block_spelling, block.block) AS serial_block,
       lot.first_number + parcel.start_grams / 1000000 AS first_number,
       lot.first_number + (parcel.start_grams + parcel.quantity_grams - 1) / 1000000 AS last_number,
       parcel.start_grams % 1000000 AS start_grams, parcel.quantity_grams, parcel.beneficiary, parcel.opened_at,
       ARRAY(SELECT DISTINCT share.beneficiary FROM shares share
             WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id ORDER BY share.beneficiary) AS on_behalf_of
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN serial_blocks block ON block.number = lot.serial_block
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE parcel.mode = $1 AND parcel.status = 'to_retire'
  AND NOT coalesce((
      SELECT bool_and(EXISTS (SELECT FROM disputes WHERE disputes.account_id = share.account_id
                                AND disputes.order_id = share.order_id AND disputes.state = 'opened'))
      FROM shares share WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id), false)
ORDER BY parcel.opened_at, parcel.lot_id, parcel.start_grams LIMIT $2
"""


async def list_tasks_any_account(connection: Connection, mode: Mode) -> list[Task]:
    """Oldest first, at most as many as one file may contain when it is imported."""
    return [Task(**row) for row in await connection.fetch(LIST_TO_RETIRE, mode, MAX_ROWS)]


def export_tasks(tasks: Iterable[Task]) -> bytes:
    """CSV with a byte order mark: without it, spreadsheets misread names that are not ASCII."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(EXPORT_COLUMNS)
    for task in tasks:
        cells = {
            **asdict(task),
            "kilograms": task.kilograms,
            "quantity": format_tonnes(task.quantity_grams),
            "beneficiary": task.named,
            "opened_at": to_wire(task.opened_at),
            "retired_on": "",
            "retirement_url": "",
        }
        writer.writerow([escape_formula(str(cells[column])) for column in EXPORT_COLUMNS])
    return text.getvalue().encode("utf-8-sig")
