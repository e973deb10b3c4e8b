"""The state of an invoice in words."""

from datetime import date

from msgspec import Struct

from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import PaymentMethod


class StateInWords(Struct, frozen=True):
    """`tone` is empty, `warn` or `bad`."""

    label: str
    tone: str = ""


_CLOSED = {"paid": "Paid", "credited": "Credited", "cancelled": "Cancelled"}


def describe_invoice(
    invoice: Invoice, received_minor: int, today: date, *, with_write_offs: bool = False
) -> StateInWords:
    """`with_write_offs` is for the operator: a write-off is internal, and the customer still owes the money."""
    if invoice.closing is not None:
        return StateInWords(_CLOSED[invoice.closing.status], "warn" if invoice.closing.status == "cancelled" else "")
    if with_write_offs and invoice.is_written_off:
        return StateInWords("Written off", "warn")
    if invoice.payment_method is PaymentMethod.CARD:
        return StateInWords("Paid by card soon", "warn")
    days = (today - invoice.due_on).days
    # In test mode nothing is owed.
    if days > 0 and invoice.mode is Mode.LIVE and invoice.status is InvoiceStatus.OPEN:
        return StateInWords(f"{days} {'day' if days == 1 else 'days'} overdue", "bad")
    return StateInWords("Partly paid" if received_minor else "Open", "warn")
