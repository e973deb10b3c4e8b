"""Invoices, credit notes and card payments of one organisation, and what will be on its next invoices."""

from collections.abc import Sequence
from datetime import date, datetime

from msgspec import Struct

from tonne.money.invoices.model import Invoice
from tonne.money.invoices.store import INVOICE_COLUMNS, INVOICES, read_invoice
from tonne.platform.db.database import Connection, optional
from tonne.platform.values.context import Tenant

LIST_INVOICES = f"""
SELECT {INVOICE_COLUMNS} FROM {INVOICES}
WHERE invoices.organisation_id = $1 AND invoices.mode = $2 AND NOT invoices.is_prepaid
  AND ($3::bigint IS NULL OR invoices.number < $3)
ORDER BY invoices.number DESC LIMIT $4
"""  # noqa: S608 - a constant


async def list_invoices_of(connection: Connection, tenant: Tenant, before: int | None, limit: int) -> Sequence[Invoice]:
    """Newest first, with numbers below `before` if it is given."""
    rows = await connection.fetch(LIST_INVOICES, *tenant, before, limit)
    return [read_invoice(row) for row in rows]


# A statement of its own: few invoices are open, and only they are in its index.
LIST_OPEN_INVOICES = f"""
SELECT {INVOICE_COLUMNS} FROM {INVOICES}
WHERE invoices.organisation_id = $1 AND invoices.mode = $2 AND invoices.status = 'open'
  AND ($3::bigint IS NULL OR invoices.number < $3)
ORDER BY invoices.number DESC LIMIT $4
"""  # noqa: S608 - a constant


async def list_open_invoices_of(
    connection: Connection, tenant: Tenant, before: int | None, limit: int
) -> Sequence[Invoice]:
    rows = await connection.fetch(LIST_OPEN_INVOICES, *tenant, before, limit)
    return [read_invoice(row) for row in rows]


FIND_INVOICE = f"""
SELECT {INVOICE_COLUMNS} FROM {INVOICES}
WHERE invoices.organisation_id = $1 AND invoices.mode = $2
  AND invoices.id IN (SELECT coalesce(note.invoice_id, named.id) FROM tax_documents named
                      LEFT JOIN credit_notes note ON note.id = named.corrects AND note.cause = 'replacement'
                      WHERE named.reference = $3)
"""  # noqa: S608 - a constant


async def find_invoice_of(connection: Connection, tenant: Tenant, reference: str) -> Invoice | None:
    """By the number of any document that was issued for it."""
    return optional(read_invoice, await connection.fetchrow(FIND_INVOICE, *tenant, reference))


SUM_RECEIVED = """
SELECT paid.invoice_id, sum(paid.amount_minor)::bigint AS received_minor
FROM transfer_assignments paid JOIN invoices ON invoices.id = paid.invoice_id
WHERE invoices.organisation_id = $1 AND paid.invoice_id = ANY ($2::text[]) GROUP BY paid.invoice_id
"""


async def sum_received_of(connection: Connection, organisation_id: str, invoices: Sequence[Invoice]) -> dict[str, int]:
    """What these invoices received by bank transfer, by id. Those that received nothing may be missing."""
    rows = await connection.fetch(SUM_RECEIVED, organisation_id, [each.id for each in invoices])
    return {row["invoice_id"]: row["received_minor"] for row in rows}


class ReceivedPayment(Struct, frozen=True):
    """A bank transfer, or the part of it, that an invoice received. Negative: that was undone."""

    amount_minor: int
    payer: str
    booked_on: date


LIST_RECEIVED = """
SELECT paid.amount_minor, transfer.payer, transfer.booked_on
FROM transfer_assignments paid JOIN bank_transfers transfer ON transfer.id = paid.transfer_id
WHERE paid.invoice_id = $1 ORDER BY paid.created_at, paid.id LIMIT 200
"""


async def list_received(connection: Connection, invoice: Invoice) -> Sequence[ReceivedPayment]:
    """Oldest first."""
    return [ReceivedPayment(**row) for row in await connection.fetch(LIST_RECEIVED, invoice.id)]


class CollectedOrders(Struct, frozen=True):
    """Orders that wait for a consolidated invoice. `account_name` is set if the card of one account pays it."""

    currency: str
    billing: str
    threshold_minor: int
    order_count: int
    total_minor: int
    issued_at: datetime | None
    account_name: str | None


LIST_NEXT = """
SELECT grouped.currency, grouped.billing, grouped.threshold_minor, grouped.order_count, grouped.total_minor,
       grouped.next_attempt_at AS issued_at, accounts.name AS account_name
FROM billing_groups grouped LEFT JOIN accounts ON accounts.id = nullif(grouped.account_id, '')
WHERE grouped.organisation_id = $1 AND grouped.mode = $2 AND grouped.order_count > 0
ORDER BY grouped.next_attempt_at, grouped.currency, grouped.id LIMIT 100
"""


async def list_next_invoices(connection: Connection, tenant: Tenant) -> Sequence[CollectedOrders]:
    """What is collected so far, without tax: the first to be issued comes first."""
    return [CollectedOrders(**row) for row in await connection.fetch(LIST_NEXT, *tenant)]


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
SELECT charges.id, status, charges.amount_minor, charges.currency, coalesce(code, outcome) AS outcome, created_at,
       settled_at
FROM charge_invoices document
JOIN charges ON charges.id = document.charge_id
WHERE document.invoice_id = $1 ORDER BY created_at, charges.id LIMIT 100
"""


async def list_charges_of_invoice(connection: Connection, invoice: Invoice) -> Sequence[InvoiceCharge]:
    """Oldest first."""
    return [InvoiceCharge(**row) for row in await connection.fetch(LIST_CHARGES, invoice.id)]


class CardPayment(Struct, frozen=True):
    """A captured card payment for an order, or for invoices. `refunded_minor` is what has gone back."""

    id: str
    account_id: str
    account_name: str
    order_id: str | None
    invoice_references: list[str]
    amount_minor: int
    refunded_minor: int
    tax_minor: int | None
    currency: str
    paid_at: datetime


_PAYMENT = """
charges.id, charges.account_id, accounts.name AS account_name, charges.order_id,
       coalesce(billed.invoice_references, '{}') AS invoice_references, charges.amount_minor,
       coalesce((SELECT sum(refunds.amount_minor) FROM refunds
                 WHERE refunds.charge_id = charges.id AND refunds.state = 'succeeded'), 0)::bigint AS refunded_minor,
       coalesce(billed.tax_minor, orders.tax_minor) AS tax_minor, charges.currency, charges.settled_at AS paid_at
FROM charges JOIN accounts ON accounts.id = charges.account_id
CROSS JOIN LATERAL (
    SELECT array_agg(document.reference ORDER BY document.reference) AS invoice_references,
           sum(document.tax_minor)::bigint AS tax_minor
    FROM charge_invoices paid JOIN tax_documents document ON document.id = paid.invoice_id
    WHERE paid.account_id = charges.account_id AND paid.charge_id = charges.id) AS billed
LEFT JOIN orders ON orders.account_id = charges.account_id AND orders.id = charges.order_id
WHERE charges.organisation_id = $1 AND charges.mode = $2 AND charges.status IN ('captured', 'refunded')
"""
LIST_PAYMENTS = f"""
SELECT {_PAYMENT} AND (charges.settled_at, charges.id) < ($3, $4)
ORDER BY charges.settled_at DESC, charges.id DESC LIMIT $5
"""


async def list_card_payments(
    connection: Connection, tenant: Tenant, before: tuple[datetime, str], limit: int
) -> Sequence[CardPayment]:
    """Newest first, from the position `before` on."""
    return [CardPayment(**row) for row in await connection.fetch(LIST_PAYMENTS, *tenant, *before, limit)]


FIND_PAYMENT = f"SELECT {_PAYMENT} AND charges.id = $3"


async def find_card_payment(connection: Connection, tenant: Tenant, charge_id: str) -> CardPayment | None:
    row = await connection.fetchrow(FIND_PAYMENT, *tenant, charge_id)
    return None if row is None else CardPayment(**row)
