"""The form of the retirement desk: the lines that were retired, with the address of the registry's page and the date.

The form contains each line as it was shown. A line may have grown since: orders that came later are not confirmed.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated

import msgspec

from tonne.apps.dashboard.form import Form
from tonne.platform.documents.sheets.columns import CellError
from tonne.supply.retirements.confirmations.confirm_lines import LineFault
from tonne.supply.retirements.confirmations.rows import ConfirmationRow, parse_registry_url
from tonne.supply.retirements.confirmations.work_list import Task
from tonne.supply.stock.lots.lots import latest_day

# Three fields each; a form may have 200.
LINES_PER_PAGE = 40
MAX_REFERENCE = 200
_Text = Annotated[str, msgspec.Meta(pattern="^[^\0]+$")]
_Number = Annotated[int, msgspec.Meta(ge=0, lt=10**15)]


class SeenLine(msgspec.Struct, array_like=True, frozen=True):
    """A line of the work list, as the page has shown it."""

    parcel_id: _Text
    serial_block: _Text
    runs: Annotated[list[tuple[_Number, _Number]], msgspec.Meta(min_length=1)]
    beneficiary: str

    def confirmed(self, number: int, retired_on: date, retirement_url: str) -> ConfirmationRow:
        return ConfirmationRow(
            line=number,
            parcel_id=self.parcel_id,
            serial_block=self.serial_block,
            first_number=self.runs[0][0],
            last_number=self.runs[-1][1],
            serials=self.runs,
            beneficiary=self.beneficiary,
            retired_on=retired_on,
            retirement_url=retirement_url,
        )


def seen(task: Task) -> str:
    """For a hidden field of the form."""
    return msgspec.json.encode(SeenLine(task.parcel_id, task.serial_block, task.runs, task.named)).decode()


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
    day = _read_day(form, now)
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


def _read_day(form: Form, now: datetime) -> date:
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
