"""The form of the retirement desk: the lines that were retired, with the address of the registry's page and the date.

The form contains each line as it was shown. A line may have grown since: orders that came later are not confirmed.
"""

import csv
import io
from collections.abc import Sequence
from datetime import date, datetime

import msgspec

from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.viewer import Fields
from tonne.platform.documents.sheets.csv_lines import SheetFile
from tonne.platform.documents.sheets.errors import RowError
from tonne.supply.retirements.confirmations.work_list import Task
from tonne.supply.stock.lots.lots import latest_day
from tonne.supply.stock.serial_runs import format_runs

# Three fields each; a form may have 200.
LINES_PER_PAGE = 40
MAX_REFERENCE = 200
_COLUMNS = (
    *("parcel_id", "serial_block", "first_number", "last_number", "serials", "beneficiary"),
    *("retired_on", "retirement_url"),
)
_FILE = "retirement desk"


class SeenLine(msgspec.Struct, array_like=True, frozen=True):
    """A line of the work list, as the page has shown it."""

    parcel_id: str
    serial_block: str
    first_number: int
    last_number: int
    serials: str
    beneficiary: str


def seen(task: Task) -> str:
    """For a hidden field of the form."""
    numbers = (task.first_number, task.last_number, format_runs(task.runs))
    return msgspec.json.encode(SeenLine(task.parcel_id, task.serial_block, *numbers, task.named)).decode()


class DeskConfirmation(msgspec.Struct, frozen=True):
    """The chosen lines as a file for the import. `fields` has the field of the address for each line of the file."""

    file: SheetFile
    fields: Sequence[tuple[str, str]]
    reference: str | None

    def add_faults(self, form: Form, errors: Sequence[RowError]) -> None:
        """Each error of the import beside the line that it is about; line 1 of the file is its header."""
        for error in errors:
            if error.line is None:
                form.fail("", error.message)
                continue
            line_field, url_field = self.fields[error.line - 2]
            name = {"retirement_url": url_field, "retired_on": "retired_on"}.get(error.column or "", line_field)
            form.fail(name, error.message[:1].upper() + error.message[1:])


def read_desk_form(form: Form, fields: Fields, now: datetime) -> DeskConfirmation | None:
    """None if the form has faults."""
    requested = set(fields.get("line", ()))
    lines = [
        line
        for name, values in fields.items()
        if name.startswith("seen_") and (line := _read_seen(values[0])) is not None
    ]
    chosen = [line for line in lines if form.is_checked("all") or line.parcel_id in requested]
    if not chosen:
        form.fail("", "Choose at least one line that you have retired.")
    day = _read_day(form, now)
    shared = form.value("retirement_url")
    reference = form.value("reference")
    if len(reference) > MAX_REFERENCE or not reference.isprintable():
        form.fail("reference", f"Use at most {MAX_REFERENCE} characters in one line.")
    urls = [form.value(f"url_{line.parcel_id}") or shared for line in chosen]
    if chosen and not all(urls):
        form.fail("retirement_url", "Enter the address of the registry's page, here or beside each chosen line.")
    if form.faults or day is None:
        return None
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for line, url in zip(chosen, urls, strict=True):
        writer.writerow((*msgspec.structs.astuple(line), day.isoformat(), url))
    # A fault of the shared address is shown beside it.
    names = [
        (f"line_{line.parcel_id}", f"url_{line.parcel_id}" if form.value(f"url_{line.parcel_id}") else "retirement_url")
        for line in chosen
    ]
    return DeskConfirmation(SheetFile(_FILE, text.getvalue().encode()), names, reference or None)


def _read_seen(text: str) -> SeenLine | None:
    try:
        return msgspec.json.decode(text, type=SeenLine)
    except msgspec.DecodeError:
        return None


def _read_day(form: Form, now: datetime) -> date | None:
    try:
        day = date.fromisoformat(form.value("retired_on"))
    except ValueError:
        form.fail("retired_on", "Enter the day of the retirement, such as 2026-11-16.")
        return None
    if day > latest_day(now):
        form.fail("retired_on", "This day is in the future. Enter the day of the retirement.")
    return day
