"""Card payments: those of an invoice, and the receipts of an organisation."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tonne.money.invoices.model import Invoice
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode


class InvoiceCharge(Struct, frozen=True):
    """An attempt to charge the card for an invoice. `outcome` is the reason of a decline."""

    id: str
    status: str
    amount_minor: int
    currency: str
    outcome: str | None
    created_at: datetime
    settled_at: datetime | None


LIST_CHARGES = """
SELECT id, status, amount_minor, currency, coalesce(code, outcome) AS outcome, created_at, settled_at FROM charges
WHERE invoice_id = $1 ORDER BY created_at, id LIMIT 100
"""


async def list_charges_of_invoice(connection: Connection, invoice: Invoice) -> Sequence[InvoiceCharge]:
    """Oldest first."""
    return [InvoiceCharge(**row) for row in await connection.fetch(LIST_CHARGES, invoice.id)]


class CardPayment(Struct, frozen=True):
    """A captured card payment for an order or an invoice. `refunded_minor` is what has gone back."""

    id: str
    account_id: str
    account_name: str
    order_id: str | None
    invoice_id: str | None
    invoice_reference: str | None
    amount_minor: int
    refunded_minor: int
    tax_minor: int | None
    currency: str
    paid_at: datetime


_PAYMENT = """
charges.id, charges.account_id, accounts.name AS account_name, charges.order_id, charges.invoice_id,
       invoices.reference AS invoice_reference, charges.amount_minor,
       coalesce((SELECT sum(refunds.amount_minor) FROM refunds
                 WHERE refunds.charge_id = charges.id AND refunds.state = 'succeeded'), 0)::bigint AS refunded_minor,
       coalesce(invoices.tax_minor, orders.tax_minor) AS tax_minor, charges.currency, charges.settled_at AS paid_at
FROM charges JOIN accounts ON accounts.id = charges.account_id
LEFT JOIN invoices ON invoices.id = charges.invoice_id
LEFT JOIN orders ON orders.account_id = charges.account_id AND orders.id = charges.order_id
WHERE charges.organisation_id = $1 AND charges.mode = $2 AND charges.status IN ('captured', 'refunded')
"""
LIST_PAYMENTS = f"""
SELECT {_PAYMENT} AND (charges.settled_at, charges.id) < ($3, $4)
ORDER BY charges.settled_at DESC, charges.id DESC LIMIT $5
"""


async def list_card_payments(
    connection: Connection, organisation_id: str, mode: Mode, before: tuple[datetime, str], limit: int
) -> Sequence[CardPayment]:
    """Newest first, from the position `before` on."""
    return [CardPayment(**row) for row in await connection.fetch(LIST_PAYMENTS, organisation_id, mode, *before, limit)]


FIND_PAYMENT = f"SELECT {_PAYMENT} AND charges.id = $3"


async def find_card_payment(
    connection: Connection, organisation_id: str, mode: Mode, charge_id: str
) -> CardPayment | None:
    row = await connection.fetchrow(FIND_PAYMENT, organisation_id, mode, charge_id)
    return None if row is None else CardPayment(**row)
