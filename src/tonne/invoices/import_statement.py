"""Import a bank statement: every line is booked once and settles the invoice that it pays."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from tonne.accounts import audit
from tonne.banking.csv_statement import Spelling
from tonne.banking.read_statement import DETECTED, read_statement
from tonne.banking.statement import StatementLine
from tonne.base.actor import Actor
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.db.pool import Connection
from tonne.invoices import store as invoice_store
from tonne.invoices import transfer_store
from tonne.invoices.model import Invoice, InvoiceStatus
from tonne.invoices.reference import references_in
from tonne.invoices.settle_invoice import lock_with_orders_any_account, mark_invoice_paid, pay_orders_any_account
from tonne.invoices.transfer_store import Transfer, TransferOutcome
from tonne.sheets.csv_lines import SheetFile

SETTLING = (TransferOutcome.MATCHED, TransferOutcome.OVER)


class BookedLine(NamedTuple):
    """The result of one line. `reference` is the invoice that it names; `message` explains the result to a person."""

    line: StatementLine
    outcome: TransferOutcome
    reference: str | None
    message: str


@dataclass(slots=True)
class _NamedInvoice:
    """An invoice named by lines of the statement, with what it has received up to the current line."""

    invoice: Invoice
    received_minor: int

    @property
    def is_open(self) -> bool:
        return self.invoice.status is InvoiceStatus.OPEN


async def import_statement(
    tx: Connection, mode: Mode, file: SheetFile, *, actor: Actor, now: datetime, spelling: Spelling = DETECTED
) -> list[BookedLine]:
    """Book every line, or raise SheetInvalid with every error. One import runs at a time."""
    lines = read_statement(file, spelling).lines
    digests = transfer_store.line_digests(mode, lines)
    await transfer_store.lock_imports(tx)
    known = await transfer_store.find_known_any_account(tx, digests)
    invoices = await _named_invoices(tx, lines)
    booked, transfers, paid, entries = [], [], [], []
    for line, digest in zip(lines, digests, strict=True):
        if digest in known:
            booked.append(BookedLine(line, TransferOutcome.KNOWN, None, "imported before."))
            continue
        outcome, named, message = _match(line, mode, invoices)
        booked.append(BookedLine(line, outcome, named.invoice.reference if named else None, message))
        transfers.append(Transfer(line, outcome, named.invoice.id if named else None, digest))
        if named and outcome in SETTLING:
            paid.append(named.invoice.id)
            note = f"bank transfer of {line.booked_on}"
            entries.append(await mark_invoice_paid(tx, named.invoice, actor=actor, now=now, note=note))
            named.invoice = replace(named.invoice, status=InvoiceStatus.PAID)
    if transfers:
        await transfer_store.insert_transfers_any_account(tx, mode, transfers, actor=actor, now=now)
        await audit.record_all(tx, [_import_entry(mode, file, booked), *entries], actor=actor, at=now)
    if paid:
        await pay_orders_any_account(tx, paid, now)
    return booked


def _import_entry(mode: Mode, file: SheetFile, booked: Sequence[BookedLine]) -> audit.Entry:
    """What was imported, for the operator. The digest identifies the file."""
    return audit.Entry(
        action="bank_statement.imported",
        subject_id=sha256(file.content).hexdigest(),
        mode=mode,
        details={"file": file.name, "lines": Counter(str(line.outcome) for line in booked)},
    )


async def _named_invoices(tx: Connection, lines: Sequence[StatementLine]) -> dict[str, _NamedInvoice]:
    """The invoices that the lines may name, by reference. They and their orders are locked."""
    references = {reference for line in lines for place in references_in(line.reference) for reference in place}
    ids = [found.id for found in await invoice_store.find_by_references_any_account(tx, list(references))]
    invoices = await lock_with_orders_any_account(tx, ids)
    received = await transfer_store.sum_received_any_account(tx, ids)
    return {invoice.reference: _NamedInvoice(invoice, received.get(invoice.id, 0)) for invoice in invoices}


def _match(
    line: StatementLine, mode: Mode, invoices: Mapping[str, _NamedInvoice]
) -> tuple[TransferOutcome, _NamedInvoice | None, str]:
    """The outcome of a line, the invoice that it names and a message. Adds its amount to what the invoice received."""
    named, problem = _find_named(line, mode, invoices)
    if named is None:
        return TransferOutcome.UNKNOWN, None, problem
    invoice = named.invoice
    if not named.is_open:
        return TransferOutcome.NOT_OPEN, named, f"the invoice is already {invoice.status}: refund {line.amount}."
    named.received_minor += line.amount_minor
    rest_minor = invoice.due_minor - named.received_minor
    rest = f"{format_money(abs(rest_minor), invoice.currency)} {invoice.currency}"
    if rest_minor > 0:
        return TransferOutcome.UNDER, named, f"{rest} of {invoice.due} still missing."
    if rest_minor < 0:
        return TransferOutcome.OVER, named, f"{invoice.due} paid, and {rest} too much: refund {rest}."
    return TransferOutcome.MATCHED, named, f"{invoice.due} paid."


def _find_named(
    line: StatementLine, mode: Mode, invoices: Mapping[str, _NamedInvoice]
) -> tuple[_NamedInvoice | None, str]:
    """The only invoice that the line names, or a message. An ambiguous line is left for an operator to settle."""
    if line.amount_minor <= 0:
        return None, "not an incoming payment."
    places = references_in(line.reference)
    missing = [min(place) for place in places if not place & invoices.keys()]
    names = {name for place in places for name in place & invoices.keys()}
    if not places:
        return None, "no invoice is named."
    if missing:
        return None, f"there is no invoice {missing[0]}."
    if len(names) > 1:
        return None, f"ambiguous: may be any of {', '.join(sorted(names))}."
    named = invoices[names.pop()]
    invoice = named.invoice
    if (invoice.mode, invoice.currency) != (mode, line.currency):
        return None, f"{invoice.reference} is in {invoice.mode} mode and in {invoice.currency}."
    return named, ""
