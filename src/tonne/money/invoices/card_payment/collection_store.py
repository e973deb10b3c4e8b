"""SQL of collections: the open invoices of small orders that the card of an account pays, and what joins them."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tonne.money.cards.invoice_charge_store import CardInvoice
from tonne.platform.db.database import Connection, columns, value_of
from tonne.selling.orders.model import OrderKey


class Collection(Struct, frozen=True):
    """`retry_at`: of another one, when it is charged again after a decline. `ends_at`: when too little is given up."""

    invoice_id: str
    retry_at: datetime | None
    ends_at: datetime


# Also the invoice of an order that takes the collection with it: all other invoices that a card pays are of a month, or
# of a threshold. Not those with a charge in progress, nor those that the card did not pay in the end or that a transfer
# pays in part. The one that is due is always among them.
LIST_COLLECTIONS = """
SELECT due.invoice_id, CASE WHEN due.invoice_id <> $2 THEN due.retry_at END AS retry_at,
       CASE WHEN accounts.closed_at IS NOT NULL OR organisations.closed_at IS NOT NULL THEN $3::timestamptz
            ELSE (invoices.issued_on + interval '12 months') AT TIME ZONE 'UTC' END AS ends_at
FROM card_invoices asked
JOIN invoices own ON own.id = asked.invoice_id
JOIN card_invoices due ON due.account_id = asked.account_id
JOIN invoices ON invoices.id = due.invoice_id
JOIN accounts ON accounts.id = due.account_id
JOIN organisations ON organisations.id = accounts.organisation_id
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(charges.status IN ('pending', 'captured', 'mismatched')), false) AS is_open
    FROM charge_invoices document
    JOIN charges ON charges.id = document.charge_id
    WHERE document.invoice_id = due.invoice_id) AS charged
WHERE asked.account_id = $1 AND asked.invoice_id = $2 AND invoices.status = 'open'
  AND invoices.billing IN ('collected', 'per_order') AND own.billing IN ('collected', 'per_order')
  AND invoices.currency = own.currency
  AND (due.invoice_id = $2 OR NOT charged.is_open AND NOT due.is_given_up
       AND NOT EXISTS (SELECT FROM transfer_assignments part WHERE part.invoice_id = due.invoice_id))
"""


async def list_collections(connection: Connection, invoice: CardInvoice, now: datetime) -> list[Collection]:
    """Those that are charged with this open one, which is among them. None if it is of a month or a threshold."""
    rows = await connection.fetch(LIST_COLLECTIONS, invoice.scope.account_id, invoice.invoice_id, now)
    return [value_of(Collection, row) for row in rows]


# Of each account the oldest order that was never charged, if small orders wait for their invoice, or such an invoice
# for its first charge. Not while a charge of a collection has no result, or is to be repeated.
LIST_TAKING = """
SELECT DISTINCT ON (orders.account_id, orders.currency) orders.account_id, orders.id
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
CROSS JOIN LATERAL (
    SELECT count(*) AS open,
           coalesce(bool_or(due.retry_at IS NOT NULL OR charged.status IN ('pending', 'mismatched')), false) AS is_tried
    FROM card_invoices due JOIN invoices ON invoices.id = due.invoice_id
    LEFT JOIN charge_invoices document ON document.account_id = due.account_id
                                      AND document.invoice_id = due.invoice_id
    LEFT JOIN charges charged ON charged.id = document.charge_id
    WHERE due.account_id = orders.account_id AND NOT due.is_given_up AND invoices.status = 'open'
      AND invoices.billing IN ('collected', 'per_order') AND invoices.currency = orders.currency
) AS collection
WHERE orders.offset_link_id IS NULL AND orders.tax_minor IS NOT NULL AND orders.total_cost_minor + orders.tax_minor > 0
  AND NOT collection.is_tried
  AND (collection.open > 0
       OR EXISTS (SELECT FROM unbilled_orders unbilled JOIN billing_groups grouped ON grouped.id = unbilled.group_id
                  WHERE unbilled.account_id = orders.account_id AND grouped.billing = 'collected'
                    AND grouped.currency = orders.currency))
  AND NOT EXISTS (SELECT FROM charges WHERE charges.account_id = orders.account_id AND charges.order_id = orders.id)
ORDER BY orders.account_id, orders.currency, orders.created_at, orders.id
"""


async def list_taking(connection: Connection, keys: Sequence[OrderKey]) -> list[OrderKey]:
    """Those of these placed orders whose charge also pays for the open collection of their account."""
    rows = await connection.fetch(LIST_TAKING, *columns(keys, "account_id, id"))
    return [OrderKey(row["account_id"], row["id"]) for row in rows]


LIST_TAKEN_GROUPS = """
SELECT grouped.id FROM invoices own
JOIN billing_groups grouped ON grouped.organisation_id = own.organisation_id AND grouped.mode = own.mode
                           AND grouped.currency = own.currency
WHERE own.id = $2 AND own.billing = 'per_order' AND own.status = 'open' AND grouped.account_id = $1
  AND grouped.billing = 'collected' AND grouped.order_count > 0
  AND NOT EXISTS (SELECT FROM charge_invoices tried WHERE tried.account_id = $1 AND tried.invoice_id = own.id)
ORDER BY grouped.id
"""


async def list_taken_groups(connection: Connection, invoice: CardInvoice) -> list[str]:
    """The groups of small orders that are billed because an order is charged for the first time."""
    rows = await connection.fetch(LIST_TAKEN_GROUPS, invoice.scope.account_id, invoice.invoice_id)
    return [row["id"] for row in rows]


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
