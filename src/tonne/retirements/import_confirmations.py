"""Confirmations come back: what the operator retired at the registries, taken in all together or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from tonne.accounts import audit
from tonne.base.scope import Mode
from tonne.base.urls import MAX_URL_LENGTH
from tonne.catalog.csv_cells import LABEL_LENGTH, Cells
from tonne.catalog.csv_files import BadLine, CsvFile, CsvReader, FileKind, show
from tonne.catalog.csv_rows import MAX_SERIAL_NUMBER
from tonne.catalog.import_catalogue import BadLinesError
from tonne.db.pool import Connection
from tonne.retirements.model import ParcelStatus
from tonne.retirements.retire_parcels import Confirmation, confirm_retirements
from tonne.retirements.work_list import EXPORT_COLUMNS, harmless

COLUMNS = ("parcel_id", "serial_block", "first_number", "last_number", "retired_on", "retirement_url")
# The rest of an exported list may stay in the file: it is not read.
IGNORED = tuple(column for column in EXPORT_COLUMNS if column not in COLUMNS)
# Somewhere it is tomorrow already.
_AHEAD = timedelta(hours=14)


@dataclass(frozen=True, slots=True)
class ConfirmationRow:
    line: int
    parcel_id: str
    serial_block: str
    first_number: int
    last_number: int
    retired_on: date
    retirement_url: str


@dataclass(frozen=True, slots=True)
class Report:
    """`known_count` lines said what was known already."""

    confirmed_count: int
    confirmed_grams: int
    known_count: int


@dataclass(frozen=True, slots=True)
class _Parcel:
    id: str
    vintage: int
    serial_block: str
    first_number: int
    last_number: int
    quantity_grams: int
    status: ParcelStatus
    retired_on: date | None
    retirement_url: str | None


async def import_confirmations(
    tx: Connection, mode: Mode, name: str, content: bytes, *, now: datetime, actor: str
) -> Report:
    """Note every retirement of the file, or raise with every bad line and leave the transaction to roll back.

    The same file again changes nothing. Orders whose last gram is retired with it complete by themselves.
    """
    rows, bad_lines = _judge_file(name, content, now)
    parcels = await _lock_parcels_any_account(tx, mode, [row.parcel_id for row in rows])
    news: list[ConfirmationRow] = []
    for row in rows:
        parcel = parcels.get(row.parcel_id)
        fault = _fault(row, parcel, mode)
        if fault is not None:
            bad_lines.append(BadLine(name, row.line, *fault))
        elif parcel is not None and parcel.status is ParcelStatus.TO_RETIRE:
            news.append(row)
    if bad_lines:
        raise BadLinesError(sorted(bad_lines, key=lambda bad_line: bad_line.line or 0))
    if news:
        confirmations = [Confirmation(row.parcel_id, row.retired_on, row.retirement_url) for row in news]
        await confirm_retirements(tx, mode, confirmations, now)
        await _record_any_account(tx, mode, [row.parcel_id for row in news], now=now, actor=actor)
    grams = sum(parcels[row.parcel_id].quantity_grams for row in news)
    return Report(len(news), grams, len(rows) - len(news))


def _judge_file(name: str, content: bytes, now: datetime) -> tuple[list[ConfirmationRow], list[BadLine]]:
    """The sound rows, and what is wrong with the others whatever the work list says."""
    # The reader looks at name and content only: the kinds are those of a catalogue's files.
    reader = CsvReader(CsvFile(FileKind.LOTS, name, content), COLUMNS, IGNORED)
    rows: list[ConfirmationRow] = []
    line_of: dict[str, int] = {}
    for raw in reader.rows():
        cells = Cells(name, raw)
        row = _judge(cells, now)
        first_line = line_of.setdefault(row.parcel_id, row.line)
        if row.parcel_id and first_line != row.line:
            cells.note("parcel_id", f"line {first_line} confirms the same parcel: keep one of the two.")
        if cells.faults:
            reader.bad_lines.extend(cells.faults)
        else:
            rows.append(row)
    return rows, reader.bad_lines


def _judge(cells: Cells, now: datetime) -> ConfirmationRow:
    retired_on, url = cells.optional_date("retired_on"), cells.optional_url("retirement_url")
    for column, value in (("retired_on", retired_on), ("retirement_url", url)):
        if value is None and cells.is_sound((column,)):
            cells.note(column, "the cell is empty: fill it in, or delete the line until the parcel is retired.")
    if retired_on is not None and retired_on > (now + _AHEAD).date():
        cells.note("retired_on", "the date lies in the future: give the day on which the parcel was retired.")
    if url is not None and not url.startswith("https://"):
        cells.note("retirement_url", f"{show(url)} does not begin with https://: give the registry's own address.")
    return ConfirmationRow(
        line=cells.line,
        parcel_id=cells.text("parcel_id", LABEL_LENGTH),
        serial_block=cells.text("serial_block", MAX_URL_LENGTH),
        first_number=cells.whole("first_number", 0, MAX_SERIAL_NUMBER),
        last_number=cells.whole("last_number", 0, MAX_SERIAL_NUMBER),
        retired_on=retired_on or now.date(),
        retirement_url=url or "",
    )


def _fault(row: ConfirmationRow, parcel: _Parcel | None, mode: Mode) -> tuple[str, str] | None:
    """The column and what to do about it, or None when the row may stand."""
    if parcel is None:
        remedy = f"copy the id from `tonne retirement export --mode {mode}`."
        return "parcel_id", f"there is no parcel {show(row.parcel_id)} in {mode} mode: {remedy}"
    if parcel.status is ParcelStatus.OPEN:
        return "parcel_id", "the parcel still takes fractions: delete the line, and retire it once it is on the list."
    block_is_right = row.serial_block in {parcel.serial_block, harmless(parcel.serial_block)}
    if not block_is_right or (row.first_number, row.last_number) != (parcel.first_number, parcel.last_number):
        asked = f"{show(parcel.serial_block)} {parcel.first_number} to {parcel.last_number}"
        return "serial_block", f"the parcel holds the serials {asked}: retire these, or mend the line."
    if row.retired_on.year < parcel.vintage:
        return "retired_on", f"the date lies before the vintage {parcel.vintage}: mend it."
    facts = (parcel.retired_on, parcel.retirement_url)
    if parcel.status is ParcelStatus.RETIRED and facts != (row.retired_on, row.retirement_url):
        known = f"retired on {parcel.retired_on} ({parcel.retirement_url or 'without an address'})"
        return "parcel_id", f"the parcel is known as {known} and on certificates so: delete the line."
    return None


# In one order, whoever asks, so that two imports never wait for each other.
LOCK_PARCELS = """
SELECT parcel.id, lot.vintage, block.block AS serial_block,
       lot.first_number + parcel.start_grams / 1000000 AS first_number,
       lot.first_number + (parcel.start_grams + parcel.quantity_grams - 1) / 1000000 AS last_number,
       parcel.quantity_grams, parcel.status, parcel.retired_on, parcel.retirement_url
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN serial_blocks block ON block.number = lot.serial_block
WHERE parcel.mode = $1 AND parcel.id = ANY ($2::text[]) ORDER BY parcel.id FOR UPDATE OF parcel
"""


async def _lock_parcels_any_account(tx: Connection, mode: Mode, ids: Sequence[str]) -> dict[str, _Parcel]:
    """Those there are, by id; they stay as they are until the transaction ends."""
    rows = await tx.fetch(LOCK_PARCELS, mode, ids)
    return {row["id"]: _Parcel(**{**row, "status": ParcelStatus(row["status"])}) for row in rows}


CONCERNED = """
SELECT organisation_id, array_agg(DISTINCT parcel_id ORDER BY parcel_id) AS parcel_ids FROM shares
WHERE mode = $1 AND parcel_id = ANY ($2::text[]) GROUP BY organisation_id ORDER BY organisation_id
"""


async def _record_any_account(
    tx: Connection, mode: Mode, parcel_ids: Sequence[str], *, now: datetime, actor: str
) -> None:
    """Every organisation finds in its own audit log who said that its credits are retired."""
    for row in await tx.fetch(CONCERNED, mode, parcel_ids):
        await audit.record(
            tx,
            row["organisation_id"],
            actor=actor,
            action="retirement.confirmed",
            subject_id=row["organisation_id"],
            at=now,
            mode=mode,
            parcel_ids=row["parcel_ids"],
        )
