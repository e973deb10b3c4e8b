"""Which invoice a line of a bank statement pays, and how much of it. What is not certain is left to a person."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from tonne.money.bank.formats.statement import StatementLine
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.reference import references_in
from tonne.platform.values.context import Mode
from tonne.platform.values.replace import replace
from tonne.selling.accounts.model import PaymentMethod


class NamedInvoice(Struct):
    """An invoice that lines name, with what it has received up to the current line."""

    invoice: Invoice
    received_minor: int

    @property
    def missing_minor(self) -> int:
        """What it can still receive. One that was settled by hand gets the transfer that it was settled for."""
        invoice = self.invoice
        if invoice.status is InvoiceStatus.OPEN:
            return max(0, invoice.due_minor - self.received_minor)
        if invoice.status is InvoiceStatus.PAID and invoice.settled_by_hand:
            return max(0, (invoice.settled_minor or 0) - self.received_minor)
        return 0

    def mark_paid(self) -> None:
        self.invoice = replace(self.invoice, status=InvoiceStatus.PAID, settled_minor=self.invoice.due_minor)


class Match(NamedTuple):
    """`assigned_minor` of the line goes to the invoice; `settles` if that pays it in full."""

    named: NamedInvoice | None
    assigned_minor: int
    settles: bool
    message: str


def match_line(line: StatementLine, mode: Mode, invoices: Mapping[str, NamedInvoice]) -> Match:
    """Adds what it assigns to what the invoice received."""
    named, problem = _find_named(line, mode, invoices)
    if named is None:
        return Match(None, 0, settles=False, message=problem)
    invoice, missing = named.invoice, named.missing_minor
    if missing == 0:
        wording = "assign the money to another invoice, or return it."
        return Match(named, 0, settles=False, message=f"the invoice is already {invoice.status}: {wording}")
    if invoice.payment_method is PaymentMethod.CARD and invoice.status is InvoiceStatus.OPEN:
        wording = "assign the money by hand if the card cannot pay, or return it."
        return Match(named, 0, settles=False, message=f"the card of the account pays the invoice: {wording}")
    assigned = min(line.amount_minor, missing)
    surplus = line.amount_minor - assigned
    named.received_minor += assigned
    if invoice.is_written_off:
        message = f"{invoice.money(assigned)} of the written-off invoice recovered."
    elif invoice.status is InvoiceStatus.PAID:
        message = "the invoice was settled by hand: this is its payment."
    elif assigned < missing:
        message = f"{invoice.money(missing - assigned)} of {invoice.due} still missing."
    else:
        message = f"{invoice.due} paid."
    if surplus:
        message = f"{message.removesuffix('.')}, and {invoice.money(surplus)} too much: assign or return that."
    settles = invoice.status is InvoiceStatus.OPEN and assigned == missing
    return Match(named, assigned, settles, message)


def named_references(line: StatementLine) -> list[set[str]]:
    """The invoices that the payer names in the text, or else in the end-to-end id, which payers choose."""
    return references_in(line.reference) or references_in(line.end_to_end_id)


def _find_named(
    line: StatementLine, mode: Mode, invoices: Mapping[str, NamedInvoice]
) -> tuple[NamedInvoice | None, str]:
    """The only invoice that the line names, or a message. An ambiguous line is left for an operator."""
    places = named_references(line)
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
