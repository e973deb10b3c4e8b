"""What is left to pay of an open invoice."""

from tonne.money.bank.assignment_store import sum_received_any_account
from tonne.money.invoices.documents.record import Remaining
from tonne.money.invoices.model import Invoice
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money


async def find_remaining(connection: Connection, invoice: Invoice) -> Remaining | None:
    """None if the whole total is due, or the invoice is closed."""
    if invoice.closing is not None:
        return None
    received = (await sum_received_any_account(connection, [invoice.id])).get(invoice.id, 0)
    if not received and not invoice.credited_minor:
        return None

    def amount(minor: int) -> str:
        return format_money(minor, invoice.currency)

    return Remaining(
        received=amount(received) if received else None,
        credited=amount(invoice.credited_minor) if invoice.credited_minor else None,
        due=amount(max(invoice.due_minor - received, 0)),
    )
