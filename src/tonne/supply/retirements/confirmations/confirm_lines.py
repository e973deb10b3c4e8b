"""Record what the operator retired at the registries, on the desk or in a file: all lines or none."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from msgspec import Struct, field

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import SheetInvalid, quoted
from tonne.platform.documents.sheets.read_sheet import SheetFile, read_sheet
from tonne.platform.process.progress import progress
from tonne.platform.settings.settings import RegistryPage
from tonne.platform.values.context import By, Mode
from tonne.supply.retirements.confirmations.audit import ConfirmationSource, record_confirmed_parcels
from tonne.supply.retirements.confirmations.merged_lines import MergedLines
from tonne.supply.retirements.confirmations.retirement_pages import RetirementPages, registry_pages
from tonne.supply.retirements.confirmations.rows import ConfirmationRow, check_row
from tonne.supply.retirements.confirmations.store import find_certified_any_account
from tonne.supply.retirements.confirmations.work_list import EXPORT_COLUMNS
from tonne.supply.stock.lots.lots import earliest_day, latest_day
from tonne.supply.stock.model import LotStatus, ParcelStatus
from tonne.supply.stock.parcels import parcel_store
from tonne.supply.stock.parcels.confirm_retirements import Confirmation, confirm_retirements_any_account
from tonne.supply.stock.parcels.parcel_book import BookedParcel, ParcelBook, SerialsRefused
from tonne.supply.stock.serial_runs import SerialRun, cut_run
from tonne_verify.formulas import escape_formula
from tonne_verify.serials.units import SerialError


class ConfirmationReport(Struct, frozen=True):
    """`known_count` lines had been confirmed before. `details` say which parcels got other serials than exported."""

    confirmed_count: int
    confirmed_grams: int
    corrected_count: int
    known_count: int
    details: list[str]
    # Those that are confirmed or corrected.
    parcel_ids: list[str] = field(default_factory=list)


class _Confirmed(Struct, frozen=True):
    """A parcel that a line confirms: `run` has its serials, None if there is no such parcel."""

    row: ConfirmationRow
    parcel_id: str
    run: SerialRun | None


class _Recorded(Struct, frozen=True):
    """A line, and a parcel that it confirms or corrects."""

    row: ConfirmationRow
    parcel: BookedParcel

    @property
    def confirmation(self) -> Confirmation:
        return Confirmation(self.parcel.id, self.row.retired_on, self.row.retirement_url)


class LineFault(NamedTuple):
    """`line` is that of the row."""

    line: int
    column: str
    message: str


class ConfirmationPlan(Struct, frozen=True):
    """What the lines would change, with the parcels locked. Lines with faults are left out."""

    book: ParcelBook
    new: list[_Recorded]
    corrected: list[_Recorded]
    known_count: int
    faults: list[LineFault]


async def plan_confirmations(
    tx: Connection,
    mode: Mode,
    rows: Sequence[ConfirmationRow],
    *,
    now: datetime,
    pages: Sequence[RegistryPage] = (),
    instruction_ids: Collection[str] = (),
) -> ConfirmationPlan:
    """Each row has its own `line`. `pages` are where registries publish retirements, besides those that are known.

    `instruction_ids`: the rows are the answers of registries to these.
    """
    latest = latest_day(now)
    faults = [
        LineFault(row.line, *fault) for row in rows for fault in check_row(latest, {"retired_on": row.retired_on})
    ]
    book, lines, certified = await _lock_book(tx, mode, rows, faults, instruction_ids)
    check = RetirementPages(registry_pages(pages), mode)
    await check.read_used_any_account(tx, {url for line in lines if (url := line.row.retirement_url)})
    new: list[_Recorded] = []
    corrected: list[_Recorded] = []
    known_count = 0
    with progress("Checking parcels", len(lines)) as advance:
        for line in lines:
            advance(1)
            try:
                parcel, is_moved = _find_parcel(book, line, mode)
                is_known = _check_state(line.row, parcel, certified) and not is_moved
                _check_facts(line.row, parcel)
                if not is_known:
                    _check_name(line.row, parcel)
                    _check_page(line.row, parcel, check)
            except _LineRefused as error:
                faults.append(LineFault(line.row.line, error.column, error.message))
                continue
            known_count += is_known
            if not is_known:
                (corrected if parcel.status is ParcelStatus.RETIRED else new).append(_Recorded(line.row, parcel))
                parcel.status = ParcelStatus.RETIRED
                parcel.retired_on, parcel.retirement_url = line.row.retired_on, line.row.retirement_url
    return ConfirmationPlan(book, new, corrected, known_count, faults)


async def record_confirmations(
    tx: Connection,
    mode: Mode,
    plan: ConfirmationPlan,
    source: ConfirmationSource | None,
    *,
    by: By,
) -> ConfirmationReport:
    """For a plan without faults. Without a source, the audit log says nothing: a simulated registry was asked.

    Recording the same lines again changes nothing.

    A confirmation can be corrected until a certificate states it. Orders that are now fully retired are completed by
    the worker.
    """
    new, corrected = plan.new, plan.corrected
    await _write(tx, mode, plan, now=by.at)
    if source is not None and (new or corrected):
        confirmed = [each.confirmation for each in (*new, *corrected)]
        await record_confirmed_parcels(tx, mode, source, plan.book, confirmed, by=by)
    grams = sum(each.parcel.quantity_grams for each in new)
    parcel_ids = [each.parcel.id for each in (*new, *corrected)]
    return ConfirmationReport(len(new), grams, len(corrected), plan.known_count, _details(plan.book), parcel_ids)


async def _lock_book(
    tx: Connection,
    mode: Mode,
    rows: Sequence[ConfirmationRow],
    faults: list[LineFault],
    instruction_ids: Collection[str],
) -> tuple[ParcelBook, list[_Confirmed], dict[str, str]]:
    """The locked parcels, what the lines confirm, and certificates by the parcels that they state.

    Adds a fault for lines whose serials cannot be read, and for those that have more units than their parcels.
    """
    ids = {row.parcel_id for row in rows}
    stored = {parcel.id: parcel for parcel in await parcel_store.read_parcels_any_account(tx, mode, ids)}
    named = [(row, stored[row.parcel_id]) for row in rows if row.parcel_id in stored]
    runs: dict[int, list[SerialRun]] = {}
    for row, parcel in named:
        try:
            runs[row.line] = row.runs(parcel.registry, parcel.lot.units.unit_grams)
        except SerialError as error:
            faults.append(
                LineFault(row.line, "serial" if row.retired_serials is None else "retired_serials", str(error))
            )
    # Only other serials than those of the parcel concern the other parcels of the project.
    others = [(row, parcel) for row, parcel in named if row.line in runs and runs[row.line] != [parcel.run]]
    vintages = {(parcel.project_id, parcel.vintage) for _, parcel in others}
    requested = [run for row, _ in others for run in runs[row.line]]
    parcels = await parcel_store.lock_parcels_any_account(tx, mode, ids, sorted(vintages), requested)
    answered = [each for each in parcels if each.instruction_id in instruction_ids]
    free = await parcel_store.read_free(tx, mode, answered) if answered else []
    if free:
        ends = {each.lot.units.last for each in (*parcels, *free)}
        runs = {line: [part for run in of_line for part in cut_run(run, ends)] for line, of_line in runs.items()}
    unread = {row.line for row, _ in named} - runs.keys()
    lines = _confirmed([row for row in rows if row.line not in unread], parcels, runs, faults)
    certified = await find_certified_any_account(tx, mode, _contradicted(parcels, lines))
    return ParcelBook([*parcels, *free], certified.keys(), instruction_ids), lines, certified


def _confirmed(
    rows: Sequence[ConfirmationRow],
    parcels: Sequence[BookedParcel],
    runs: Mapping[int, Sequence[SerialRun]],
    faults: list[LineFault],
) -> list[_Confirmed]:
    """One for each parcel that a line confirms."""
    merged, by_id = MergedLines(parcels), {parcel.id: parcel for parcel in parcels}
    found: list[_Confirmed] = []
    for row in rows:
        parcel = by_id.get(row.parcel_id)
        if parcel is None or row.line not in runs:
            found.append(_Confirmed(row, row.parcel_id, None))
            continue
        try:
            claims = merged.claims_of(parcel, runs[row.line])
        except SerialsRefused as error:
            faults.append(LineFault(row.line, "serial", str(error)))
        else:
            found += [_Confirmed(row, claim.parcel_id, claim.run) for claim in claims]
    return found


def _contradicted(parcels: Sequence[BookedParcel], lines: Sequence[_Confirmed]) -> list[str]:
    """The ids of retired parcels about which the lines say something new. Their certificates matter."""
    retired = [parcel for parcel in parcels if parcel.status is ParcelStatus.RETIRED]
    known = {
        (id_, parcel.run, parcel.retired_on, parcel.retirement_url)
        for parcel in retired
        for id_ in (parcel.id, parcel.split_from)
    }
    new = {
        line.parcel_id
        for line in lines
        if (line.parcel_id, line.run, line.row.retired_on, line.row.retirement_url) not in known
    }
    return [parcel.id for parcel in retired if not new.isdisjoint({parcel.id, parcel.split_from})]


class _LineRefused(Exception):
    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column, self.message = column, message


def _find_parcel(book: ParcelBook, line: _Confirmed, mode: Mode) -> tuple[BookedParcel, bool]:
    """The parcel that holds the serials of the line, and whether it holds them only now."""
    row, run = line.row, line.run
    parcel = book.find(line.parcel_id)
    if parcel is None or run is None:
        remedy = f"copy the id from `tonne retirement export --mode {mode}`."
        raise _LineRefused("parcel_id", f"there is no parcel {quoted(row.parcel_id)} in {mode} mode: {remedy}")
    if parcel.status is ParcelStatus.INVALID:
        message = "the lot of the parcel was invalidated, and its orders get other credits: delete the line."
        raise _LineRefused("parcel_id", message)
    if parcel.status is ParcelStatus.OPEN:
        message = "the parcel still takes fractions: delete the line, and retire it once it is on the list."
        raise _LineRefused("parcel_id", message)
    if book.is_asked(parcel):
        raise _LineRefused("parcel_id", "the registry is being asked to retire the parcel: delete the line.")
    try:
        held = book.find_held(parcel, run)
        found = book.assign(parcel, run) if held is None else held
        book.confirm(found, row.line)
    except SerialsRefused as error:
        raise _LineRefused("serial", str(error)) from error
    return found, held is None


def _check_state(row: ConfirmationRow, parcel: BookedParcel, certified: Mapping[str, str]) -> bool:
    """Whether the line is known already. An error if it contradicts what cannot change."""
    if parcel.status is not ParcelStatus.RETIRED:
        return False
    if (parcel.retired_on, parcel.retirement_url) == (row.retired_on, row.retirement_url):
        return True
    known = f"retired on {parcel.retired_on} ({parcel.retirement_url or 'without an address'})"
    if parcel.lot_status is LotStatus.PRE_RETIRED:
        raise _LineRefused("parcel_id", f"the lot of the parcel was {known} in advance: delete the line.")
    if number := certified.get(parcel.id):
        message = f"the parcel was confirmed as {known}, and certificate {number} says so: delete the line."
        raise _LineRefused("parcel_id", message)
    return False


def _check_name(row: ConfirmationRow, parcel: BookedParcel) -> None:
    """An order may have been renamed after the list was exported. The registry then has the name of the list."""
    name = parcel.beneficiary
    if parcel.in_service_name or row.beneficiary is None or row.beneficiary in {name, escape_formula(name)}:
        return
    message = (
        f"the parcel is now to be retired for {quoted(name)}. If the registry has {quoted(row.beneficiary)}, give the "
        "order that name again with `tonne order rename`, import the file, and correct the name afterwards: a new "
        "certificate then says both. Otherwise correct the cell."
    )
    raise _LineRefused("beneficiary", message)


def _check_facts(row: ConfirmationRow, parcel: BookedParcel) -> None:
    if row.retired_on.year < parcel.vintage:
        raise _LineRefused("retired_on", f"the date is before the vintage {parcel.vintage}: correct it.")
    if parcel.lot_status is LotStatus.HELD and row.retired_on < earliest_day(parcel.ordered_at):
        ordered_on = parcel.ordered_at.astimezone(UTC).date()
        message = f"the date is before {ordered_on}, when the order was placed: enter the day of the retirement."
        raise _LineRefused("retired_on", message)


def _check_page(row: ConfirmationRow, parcel: BookedParcel, pages: RetirementPages) -> None:
    if row.retirement_url is not None and (message := pages.refusal(row.line, row.retirement_url, parcel)):
        raise _LineRefused("retirement_url", message)


async def _write(tx: Connection, mode: Mode, plan: ConfirmationPlan, *, now: datetime) -> None:
    if plan.book.changed:
        await parcel_store.move_parcels(tx, mode, plan.book)
    if plan.corrected:
        await parcel_store.correct_retirements_any_account(
            tx, mode, [each.confirmation for each in plan.corrected], now
        )
    if plan.new:
        await confirm_retirements_any_account(tx, mode, [each.confirmation for each in plan.new], now)


def _details(book: ParcelBook) -> list[str]:
    """What differs from the list that was exported."""
    moved = [f"{now.id} now holds the serials {now.serials}, before {before.serials}." for before, now in book.changed]
    split = [
        f"{parcel.id} is split off from {parcel.split_from}: {parcel.serials}"
        + ("." if parcel.status is ParcelStatus.RETIRED else ", still to be retired.")
        for parcel in book.created
    ]
    return moved + split


async def import_confirmations(
    tx: Connection,
    mode: Mode,
    file: SheetFile,
    *,
    by: By,
    pages: Sequence[RegistryPage] = (),
    reference: str | None = None,
) -> ConfirmationReport:
    """Record every retirement in the file, or raise SheetInvalid with every error.

    `reference` is the registry's number of the retirement, for the audit log.
    """
    sheet = read_sheet(file, ConfirmationRow, partial(check_row, latest_day(by.at)), ignored=EXPORT_COLUMNS)
    plan = await plan_confirmations(tx, mode, sheet.rows, now=by.at, pages=pages)
    for fault in plan.faults:
        sheet.add_error(*fault)
    if sheet.errors:
        # A line of many parcels may have the same error for each.
        raise SheetInvalid(sorted(dict.fromkeys(sheet.errors), key=lambda error: error.line or 0))
    source = ConfirmationSource(file.name, sha256(file.content).hexdigest(), reference)
    return await record_confirmations(tx, mode, plan, source, by=by)
