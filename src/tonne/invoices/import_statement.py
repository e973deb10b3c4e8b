"""Import a bank statement: every line is booked once, and settles the invoice that it pays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.db.pool import Connection
from tonne.invoices import store as invoice_store
from tonne.invoices import transfer_store
from tonne.invoices.bank_statement import StatementLine, read_statement
from tonne.invoices.model import Invoice, InvoiceStatus
from tonne.invoices.reference import references_in
from tonne.invoices.settle_invoice import mark_invoice_paid
from tonne.invoices.transfer_store import Outcome, Transfer
from tonne.orders.model import Order, OrderKey, OrderStatus
from tonne.orders.move_order import Transitions, move_orders
from tonne.orders.queue import lock_orders
from tonne.sheets.csv_lines import SheetFile

SETTLING = (Outcome.MATCHED, Outcome.OVER)


class Booked(NamedTuple):
    """What became of one line: `reference` names the invoice it was for, `message` says the rest to a person."""

    line: StatementLine
    outcome: Outcome
    reference: str | None
    message: str


@dataclass(slots=True)
class _Claim:
    """An invoice as the lines of the statement find it, one after the other."""

    invoice: Invoice
    order: Order
    received_minor: int

    @property
    def is_open(self) -> bool:
        return self.invoice.status is InvoiceStatus.OPEN and self.order.status is OrderStatus.PLACED

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.invoice.scope.account_id, self.invoice.order_id)


async def import_statement(tx: Connection, mode: Mode, file: SheetFile, *, actor: str, now: datetime) -> list[Booked]:
    """Book every line, or raise SheetInvalid with every error. One import runs at a time."""
    lines = read_statement(file)
    await transfer_store.take_turn_any_account(tx)
    known = await transfer_store.find_known_any_account(tx, [line.digest(mode) for line in lines])
    claims = await _claims(tx, lines)
    booked, transfers, paid = [], [], []
    for line in lines:
        if line.digest(mode) in known:
            booked.append(Booked(line, Outcome.KNOWN, None, "was imported before."))
            continue
        outcome, claim, message = _judge(line, mode, claims)
        booked.append(Booked(line, outcome, claim.invoice.reference if claim else None, message))
        transfers.append(Transfer(line, outcome, claim.key if claim else None))
        if claim and outcome in SETTLING:
            paid.append(claim)
            await mark_invoice_paid(tx, claim.invoice, actor=actor, now=now, note=f"bank transfer of {line.booked_on}")
            claim.invoice = replace(claim.invoice, status=InvoiceStatus.PAID)
    if transfers:
        await transfer_store.insert_transfers_any_account(tx, mode, transfers, actor=actor, now=now)
    if paid:
        walks = [
            Transitions(claim.order, [replace(claim.order, status=OrderStatus.PAID)], claim.order.due_at(now))
            for claim in paid
        ]
        await move_orders(tx, walks, now)
    return booked


async def _claims(tx: Connection, lines: Sequence[StatementLine]) -> dict[str, _Claim]:
    """The invoices that the lines may name, by reference, with their orders held."""
    references = {reference for line in lines for place in references_in(line.reference) for reference in place}
    named = await invoice_store.find_by_references_any_account(tx, list(references))
    keys = [OrderKey(invoice.scope.account_id, invoice.order_id) for invoice in named]
    orders = await lock_orders(tx, keys)
    # Read again: they may have been settled or cancelled until their orders were held.
    invoices = await invoice_store.find_by_references_any_account(tx, list(references))
    received = await transfer_store.sum_received(tx, keys)
    return {
        invoice.reference: _Claim(invoice, orders[invoice.order_id], received.get(invoice.order_id, 0))
        for invoice in invoices
    }


def _judge(line: StatementLine, mode: Mode, claims: dict[str, _Claim]) -> tuple[Outcome, _Claim | None, str]:
    """What the line means for the invoice it names; counts what it brings."""
    claim, why_not = _named(line, mode, claims)
    if claim is None:
        return Outcome.UNKNOWN, None, why_not
    invoice = claim.invoice
    if not claim.is_open:
        return Outcome.NOT_OPEN, claim, f"the invoice is {invoice.status} already: refund {line.amount}."
    claim.received_minor += line.amount_minor
    rest_minor = invoice.total_minor - claim.received_minor
    rest = f"{format_money(abs(rest_minor), invoice.currency)} {invoice.currency}"
    if rest_minor > 0:
        return Outcome.UNDER, claim, f"{rest} of {invoice.total} are still missing."
    if rest_minor < 0:
        return Outcome.OVER, claim, f"{invoice.total} are paid, and {rest} too much: refund that."
    return Outcome.MATCHED, claim, f"{invoice.total} are paid."


def _named(line: StatementLine, mode: Mode, claims: dict[str, _Claim]) -> tuple[_Claim | None, str]:
    """The one invoice that the line names, or why there is none. Nothing is guessed: a person can settle by hand."""
    if line.amount_minor <= 0:
        return None, "no money came in with this line."
    places = references_in(line.reference)
    missing = [min(place) for place in places if not place & claims.keys()]
    names = {name for place in places for name in place & claims.keys()}
    if not places:
        return None, "it names no invoice."
    if missing:
        return None, f"there is no invoice {missing[0]}."
    if len(names) > 1:
        return None, f"it may mean any of {', '.join(sorted(names))}."
    claim = claims[names.pop()]
    invoice = claim.invoice
    if (invoice.scope.mode, invoice.currency) != (mode, line.currency):
        return None, f"{invoice.reference} is of {invoice.scope.mode} mode and in {invoice.currency}."
    return claim, ""
