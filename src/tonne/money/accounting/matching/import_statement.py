"""Import a bank statement: every booked line is stored once and settles the invoice that it pays."""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from msgspec import Struct

from tonne.money.accounting.matching.match_line import (
    Match,
    NamedInvoice,
    SuggestedSplit,
    match_line,
    named_references,
    suggest_split,
)
from tonne.money.bank import doubtful_store, transfer_store
from tonne.money.bank.assignment_store import NewAssignment, insert_assignments, sum_received_any_account
from tonne.money.bank.doubtful_store import find_came_back, recognise_returns
from tonne.money.bank.formats.csv_statement import Spelling
from tonne.money.bank.formats.identity import Identified, Verdict, fingerprints, identify
from tonne.money.bank.formats.read_statement import DETECTED, read_statement, with_own_accounts
from tonne.money.bank.formats.statement import StatementFormat, StatementLine
from tonne.money.bank.return_store import find_returns_by_outgoing_any_account
from tonne.money.bank.transfer_model import Transfer, TransferState
from tonne.money.invoices import store as invoice_store
from tonne.money.invoices.document_numbers import find_ids_any_account
from tonne.money.invoices.model import DifferenceKind, Invoice
from tonne.money.invoices.settle_difference import book_difference
from tonne.money.invoices.settle_invoice import lock_with_orders_any_account, mark_invoice_paid, pay_orders_any_account
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.events.audit import record as audit
from tonne.platform.process.progress import progress
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Mode
from tonne.selling.users.guarded_settings import approved_settings


class BookedLine(NamedTuple):
    """The result of one line. `reference` is the invoice that it names; `message` explains the result to a person."""

    line: StatementLine
    outcome: TransferState | Verdict
    reference: str | None
    message: str
    transfer_id: str


class StatementOptions(Struct, frozen=True):
    """How to read a file, where it does not say so itself. `iban` is the own account that it is a statement of."""

    spelling: Spelling = DETECTED
    iban: str | None = None


NO_OPTIONS = StatementOptions()


async def import_statement(
    tx: Connection,
    mode: Mode,
    file: SheetFile,
    *,
    settings: Settings,
    by: By,
    options: StatementOptions = NO_OPTIONS,
) -> list[BookedLine]:
    """Store every new line, or raise SheetInvalid with every error. One import runs at a time."""
    statement = read_statement(file, options.spelling)
    lines = with_own_accounts(file, statement.lines, settings, options.iban)
    await transfer_store.lock_imports(tx)
    prints = fingerprints(mode, statement.format, lines)
    found = await _identify(tx, mode, statement.format, lines, prints)
    new = [each for each in found if each.verdict is Verdict.NEW]
    matches = await book_new_lines(tx, mode, statement.format, new, settings=settings, by=by)
    # Orders and invoices are locked before transfers.
    await _complete_known(tx, statement.format, found)
    doubtful = [pair for pair in zip(found, prints, strict=True) if pair[0].verdict is Verdict.DOUBTFUL]
    await doubtful_store.insert_doubtful(tx, doubtful, mode, statement.format, by=by)
    booked = await _describe(tx, found, matches)
    if any(each.outcome is not Verdict.KNOWN for each in booked):
        await audit.record_all(tx, [_import_entry(mode, file, booked)], by=by)
    # Events are appended last.
    await pay_orders_any_account(tx, settled_invoices(matches), by.at)
    return booked


async def book_new_lines(
    tx: Connection,
    mode: Mode,
    format_: StatementFormat,
    new: Sequence[Identified],
    *,
    settings: Settings,
    by: By,
) -> dict[str, Match]:
    """Store new transfers, assign them to the invoices that they name, and settle these, without their orders.

    Returns the matches by id of the transfer. The caller then pays the orders of the invoices that were settled.
    """
    if not new:
        return {}
    incoming = [each for each in new if each.line.amount_minor > 0]
    invoices = await _named_invoices(tx, [each.line for each in incoming])
    matches, entries = {}, []
    came_back = await find_came_back(tx, incoming)
    settings = await approved_settings(tx, settings)
    for each in incoming:
        if (sent := came_back.get(each.transfer_id)) is not None:
            command = f"tonne transfer return-failed {sent.id} --transfer {each.transfer_id}"
            message = f"return {sent.id} came back: `{command}`."
            matches[each.transfer_id] = Match(None, (), message)
            continue
        tolerance_minor = limit_minor(settings.payment_tolerance, each.line.currency) or 0
        match = match_line(each.line, mode, invoices, tolerance_minor)
        matches[each.transfer_id] = match
        for part in match.parts:
            if part.settles:
                part.named.mark_paid()
    named_by = {id_: match.named.invoice for id_, match in matches.items() if match.named}
    rows = [(each, named_by.get(each.transfer_id)) for each in new]
    await transfer_store.insert_transfers(tx, mode, format_, rows, by=by)
    assigned = [
        NewAssignment(id_, part.named.invoice, part.assigned_minor)
        for id_, match in matches.items()
        for part in match.parts
    ]
    if assigned:
        await insert_assignments(tx, assigned, by_operator=False, by=by)
    with progress("Settling invoices", len(incoming)) as advance:
        for each in incoming:
            note = f"bank transfer of {each.line.booked_on}"
            for part in matches[each.transfer_id].parts:
                if part.settles:
                    invoice, minor = part.named.invoice, part.tolerated_minor
                    entries.append(await mark_invoice_paid(tx, invoice, by_hand=minor > 0, by=by, note=note))
                    if minor:
                        await book_difference(tx, invoice, DifferenceKind.SMALL_DIFFERENCE, minor, note=note, by=by)
            advance(1)
    await audit.record_all(tx, entries, by=by)
    await recognise_returns(tx, mode, [each for each in new if each.line.amount_minor < 0], by=by)
    await transfer_store.refresh_states_any_account(tx, [each.transfer_id for each in new])
    return matches


def settled_invoices(matches: Mapping[str, Match]) -> list[str]:
    return [part.named.invoice.id for match in matches.values() for part in match.parts if part.settles]


async def _identify(
    tx: Connection,
    mode: Mode,
    format_: StatementFormat,
    lines: Sequence[StatementLine],
    prints: Sequence[bytes],
) -> list[Identified]:
    """Decide which lines are new."""
    doubted = await doubtful_store.find_doubted_any_account(tx, prints)
    open_lines = [line for line, print_ in zip(lines, prints, strict=True) if print_ not in doubted]
    stored = await transfer_store.find_stored_any_account(tx, mode, format_, open_lines)
    decided = iter(identify(open_lines, format_, stored))
    return [
        Identified(line, Verdict.KNOWN, "") if print_ in doubted else next(decided)
        for line, print_ in zip(lines, prints, strict=True)
    ]


async def _complete_known(tx: Connection, format_: StatementFormat, found: Sequence[Identified]) -> None:
    """Add what this format says of known transfers."""
    new_ids = {each.transfer_id for each in found if each.verdict is Verdict.NEW}
    known = [
        each for each in found if each.verdict is Verdict.KNOWN and each.transfer_id and each.transfer_id not in new_ids
    ]
    if known:
        await transfer_store.lock_transfers_any_account(tx, [each.transfer_id for each in known])
        await transfer_store.complete_transfers_any_account(tx, format_, known)


async def _describe(tx: Connection, found: Sequence[Identified], matches: dict[str, Match]) -> list[BookedLine]:
    """What each line became, with the state that its transfer has now."""
    new_ids = [each.transfer_id for each in found if each.verdict is Verdict.NEW]
    states = {each.id: each.state for each in await transfer_store.find_transfers_any_account(tx, new_ids)}
    paid_returns = await find_returns_by_outgoing_any_account(tx, new_ids)
    booked = []
    for each in found:
        match = matches.get(each.transfer_id)
        if each.verdict is Verdict.KNOWN:
            booked.append(BookedLine(each.line, each.verdict, None, "imported before.", each.transfer_id))
        elif each.verdict is Verdict.DOUBTFUL:
            message = f"may be transfer {each.transfer_id}: decide with `tonne transfer same` or `different`."
            booked.append(BookedLine(each.line, each.verdict, None, message, each.transfer_id))
        else:
            reference = match.references if match else None
            paid = paid_returns.get(each.transfer_id)
            outgoing = f"return {paid} is paid." if paid else "not an incoming payment."
            message = match.message if match else outgoing
            booked.append(BookedLine(each.line, states[each.transfer_id], reference, message, each.transfer_id))
    return booked


async def _named_invoices(tx: Connection, lines: Sequence[StatementLine]) -> dict[str, NamedInvoice]:
    """The invoices that the lines may name, by each number of theirs. They and their orders are locked."""
    references = {reference for line in lines for place in named_references(line) for reference in place}
    ids = await find_ids_any_account(tx, list(references))
    invoices = await lock_with_orders_any_account(tx, list(set(ids.values())))
    return await _by_number(tx, ids, invoices)


async def _by_number(
    connection: Connection, ids: Mapping[str, str], invoices: Sequence[Invoice]
) -> dict[str, NamedInvoice]:
    received = await sum_received_any_account(connection, [each.id for each in invoices])
    named = {each.id: NamedInvoice(each, received.get(each.id, 0)) for each in invoices}
    return {number: named[id_] for number, id_ in ids.items() if id_ in named}


async def suggest_splits_any_account(
    connection: Connection, transfers: Sequence[Transfer]
) -> dict[str, SuggestedSplit]:
    """How transfers that name several open invoices can be split over them, by transfer id."""
    open_ones = [each for each in transfers if each.amount_minor > 0 and each.rest_minor > 0]
    names = {name for each in open_ones for place in named_references(each) for name in place}
    ids = await find_ids_any_account(connection, sorted(names)) if names else {}
    invoices = await invoice_store.find_invoices_any_account(connection, list(set(ids.values())))
    known = await _by_number(connection, ids, invoices)
    splits = {each.id: suggest_split(each, known) for each in open_ones}
    return {id_: split for id_, split in splits.items() if split is not None}


def _import_entry(mode: Mode, file: SheetFile, booked: Sequence[BookedLine]) -> audit.Entry:
    """What was imported, for the operator. The digest identifies the file."""
    return audit.Entry(
        action="bank_statement.imported",
        subject_id=sha256(file.content).hexdigest(),
        mode=mode,
        details={"file": file.name, "lines": Counter(str(line.outcome) for line in booked)},
    )
