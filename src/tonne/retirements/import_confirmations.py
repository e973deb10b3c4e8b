"""Import what the operator retired at the registries: all or nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from hashlib import sha256
from typing import Annotated, ClassVar

from tonne.accounts import audit
from tonne.base.actor import Actor
from tonne.base.scope import Mode
from tonne.base.urls import MAX_URL_LENGTH
from tonne.db.pool import Connection
from tonne.retirements.confirm_retirements import Confirmation, confirm_retirements_any_account
from tonne.retirements.lots import SerialNumber, check_retired_on, latest_day
from tonne.retirements.model import ParcelStatus
from tonne.retirements.work_list import EXPORT_COLUMNS
from tonne.sheets.columns import CellError, Column, Label, parse_date, parse_web_url, text
from tonne.sheets.csv_lines import SheetFile
from tonne.sheets.errors import RowError, SheetInvalid, quoted
from tonne.sheets.formulas import escape_formula
from tonne.sheets.read_sheet import Row, Values, read_sheet

_IF_EMPTY = "the cell is empty: fill it in, or delete the line until the parcel is retired."


def _registry_url(cell: str) -> str:
    url = parse_web_url(cell)
    if not url.startswith("https://"):
        raise CellError(f"{quoted(cell)} does not begin with https://: enter the address of the registry's page.")
    return url


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("parcel_id",)

    parcel_id: Label
    serial_block: Annotated[str, Column(text(MAX_URL_LENGTH))]
    first_number: SerialNumber
    last_number: SerialNumber
    retired_on: Annotated[date, Column(parse_date, if_empty=_IF_EMPTY)]
    retirement_url: Annotated[str, Column(_registry_url, if_empty=_IF_EMPTY)]


@dataclass(frozen=True, slots=True)
class ConfirmationReport:
    """`known_count` lines had been confirmed before."""

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
    tx: Connection, mode: Mode, file: SheetFile, *, now: datetime, actor: Actor
) -> ConfirmationReport:
    """Record every retirement in the file, or raise SheetInvalid with every error.

    Importing the same file again changes nothing. Orders that are now fully retired are completed by the worker.
    """
    sheet = read_sheet(file, ConfirmationRow, partial(_check_date, latest_day(now)), ignored=EXPORT_COLUMNS)
    parcels = await _lock_parcels_any_account(tx, mode, [row.parcel_id for row in sheet.rows])
    new: list[ConfirmationRow] = []
    for row in sheet.rows:
        parcel = parcels.get(row.parcel_id)
        error = _check_parcel(row, parcel, mode)
        if error is not None:
            sheet.errors.append(RowError(sheet.name, row.line, *error))
        elif parcel is not None and parcel.status is ParcelStatus.TO_RETIRE:
            new.append(row)
    if sheet.errors:
        raise SheetInvalid(sorted(sheet.errors, key=lambda error: error.line or 0))
    if new:
        confirmations = [Confirmation(row.parcel_id, row.retired_on, row.retirement_url) for row in new]
        await confirm_retirements_any_account(tx, mode, confirmations, now)
        await _record_any_account(tx, mode, file, new, now=now, actor=actor)
    grams = sum(parcels[row.parcel_id].quantity_grams for row in new)
    return ConfirmationReport(len(new), grams, len(sheet.rows) - len(new))


def _check_date(latest: date, values: Values) -> Iterator[tuple[str, str]]:
    if "retired_on" in values:
        yield from check_retired_on(values["retired_on"], latest)


def _check_parcel(row: ConfirmationRow, parcel: _Parcel | None, mode: Mode) -> tuple[str, str] | None:
    """The column and message of the first error, or None."""
    if parcel is None:
        remedy = f"copy the id from `tonne retirement export --mode {mode}`."
        return "parcel_id", f"there is no parcel {quoted(row.parcel_id)} in {mode} mode: {remedy}"
    if parcel.status is ParcelStatus.OPEN:
        return "parcel_id", "the parcel still takes fractions: delete the line, and retire it once it is on the list."
    block_matches = row.serial_block in {parcel.serial_block, escape_formula(parcel.serial_block)}
    if not block_matches or (row.first_number, row.last_number) != (parcel.first_number, parcel.last_number):
        serials = f"{quoted(parcel.serial_block)} {parcel.first_number} to {parcel.last_number}"
        return "serial_block", f"the parcel holds the serials {serials}: retire these, or correct the line."
    if row.retired_on.year < parcel.vintage:
        return "retired_on", f"the date is before the vintage {parcel.vintage}: correct it."
    confirmed = (parcel.retired_on, parcel.retirement_url)
    if parcel.status is ParcelStatus.RETIRED and confirmed != (row.retired_on, row.retirement_url):
        known = f"retired on {parcel.retired_on} ({parcel.retirement_url or 'without an address'})"
        return "parcel_id", f"the parcel was confirmed as {known}, and certificates say so: delete the line."
    return None


# Locked in one order, so that two imports cannot deadlock.
LOCK_PARCELS = """
SELECT parcel.id, lot.vintage, coalesce(lot.block_spelling, block.block) AS serial_block,
       lot.first_number + parcel.start_grams / 1000000 AS first_number,
       lot.first_number + (parcel.start_grams + parcel.quantity_grams - 1) / 1000000 AS last_number,
       parcel.quantity_grams, parcel.status, parcel.retired_on, parcel.retirement_url
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN serial_blocks block ON block.number = lot.serial_block
WHERE parcel.mode = $1 AND parcel.id = ANY ($2::text[]) ORDER BY parcel.id FOR UPDATE OF parcel
"""


async def _lock_parcels_any_account(tx: Connection, mode: Mode, ids: Sequence[str]) -> dict[str, _Parcel]:
    """The parcels that exist, by id."""
    rows = await tx.fetch(LOCK_PARCELS, mode, ids)
    return {row["id"]: _Parcel(**{**row, "status": ParcelStatus(row["status"])}) for row in rows}


FIND_OWNERS = """
SELECT DISTINCT organisation_id, parcel_id FROM shares
WHERE mode = $1 AND parcel_id = ANY ($2::text[]) ORDER BY organisation_id, parcel_id
"""


async def _record_any_account(
    tx: Connection, mode: Mode, file: SheetFile, rows: Sequence[ConfirmationRow], *, now: datetime, actor: Actor
) -> None:
    """Each organisation sees in its audit log who confirmed the retirement of its credits."""
    confirmed = {row.parcel_id: row for row in rows}
    entries = [
        audit.Entry(
            action="confirmations.imported",
            subject_id=sha256(file.content).hexdigest(),
            mode=mode,
            details={"file": file.name, "parcels": len(rows)},
        )
    ]
    entries += [
        audit.Entry(
            action="retirement.confirmed",
            subject_id=owned["parcel_id"],
            organisation_id=owned["organisation_id"],
            mode=mode,
            before={"status": ParcelStatus.TO_RETIRE},
            after={
                "status": ParcelStatus.RETIRED,
                "retired_on": confirmed[owned["parcel_id"]].retired_on,
                "retirement_url": confirmed[owned["parcel_id"]].retirement_url,
            },
        )
        for owned in await tx.fetch(FIND_OWNERS, mode, list(confirmed))
    ]
    await audit.record_all(tx, entries, actor=actor, at=now)
