"""SQL of collections: the open invoices of small orders that the card of an account pays."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tonne.money.cards.invoice_charge_store import CardInvoice
from tonne.platform.db.database import Connection, value_of
from tonne.selling.orders.model import OrderKey


class Collection(Struct, frozen=True):
    """`retry_at`: when the card is charged again after a decline. `ends_at`: when what is too little is given up."""

    invoice_id: str
    retry_at: datetime | None
    ends_at: datetime


# Not those with a charge in progress, nor those that the card did not pay in the end or that a transfer pays in part.
# The one that is due is always among them.
LIST_COLLECTIONS = """
SELECT due.invoice_id, CASE WHEN due.invoice_id <> $2 AND charged.has_failed THEN due.next_attempt_at END AS retry_at,
       CASE WHEN accounts.closed_at IS NOT NULL OR organisations.closed_at IS NOT NULL THEN $3::timestamptz
            ELSE (invoices.issued_on + interval '12 months') AT TIME ZONE 'UTC' END AS ends_at
FROM card_invoices asked
JOIN card_invoices due ON due.account_id = asked.account_id
JOIN invoices ON invoices.id = due.invoice_id
JOIN accounts ON accounts.id = due.account_id
JOIN organisations ON organisations.id = accounts.organisation_id
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(charges.status IN ('pending', 'captured', 'mismatched')), false) AS is_open,
           coalesce(bool_or(charges.status = 'failed'), false) AS has_failed
    FROM charge_invoices document
    JOIN charges ON charges.id = document.charge_id
    WHERE document.invoice_id = due.invoice_id) AS charged
WHERE asked.account_id = $1 AND asked.invoice_id = $2 AND invoices.status = 'open' AND invoices.billing = 'collected'
  AND EXISTS (SELECT FROM invoices own WHERE own.id = asked.invoice_id AND own.billing = 'collected')
  AND (due.invoice_id = $2 OR NOT charged.is_open AND NOT due.is_given_up
       AND NOT EXISTS (SELECT FROM transfer_assignments part WHERE part.invoice_id = due.invoice_id))
"""


async def list_collections(connection: Connection, invoice: CardInvoice, now: datetime) -> list[Collection]:
    """Those that are charged with this open one, which is among them. None if it is no collection."""
    rows = await connection.fetch(LIST_COLLECTIONS, invoice.scope.account_id, invoice.invoice_id, now)
    return [value_of(Collection, row) for row in rows]


LIST_UNDELIVERED = """
SELECT billed.account_id, billed.order_id FROM invoice_orders billed
JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
WHERE billed.invoice_id = ANY ($1::text[]) AND NOT billed.cancelled AND orders.status IN ('placed', 'paid')
UNION
SELECT unbilled.account_id, unbilled.order_id FROM unbilled_orders unbilled
JOIN orders ON orders.account_id = unbilled.account_id AND orders.id = unbilled.order_id
WHERE unbilled.order_id = ANY ($2::text[]) AND unbilled.group_id IS NULL AND orders.status = 'paid'
ORDER BY account_id, order_id
"""


async def list_undelivered_any_account(
    connection: Connection, invoice_ids: Sequence[str], waiting: Sequence[OrderKey]
) -> list[OrderKey]:
    """The orders of these invoices that have no credits yet, and of those that waited those that still do."""
    rows = await connection.fetch(LIST_UNDELIVERED, list(invoice_ids), [key.id for key in waiting])
    return [OrderKey(row["account_id"], row["order_id"]) for row in rows]
