"""Finds orders of all organisations, for the operator."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg
from msgspec import Struct

from tonne.platform.db.columns import columns
from tonne.platform.db.pool import Connection
from tonne.selling.orders.model import OrderKey

FOUND = """
orders.id, orders.mode, orders.status, orders.payment_state, orders.created_at, orders.quantity_grams,
orders.total_cost_minor, orders.total_cost_minor + orders.tax_minor AS amount_due_minor, orders.refunded_minor,
orders.currency, orders.payment_method, orders.email, orders.beneficiary, orders.idempotency_key,
orders.offset_link_id, orders.metadata, orders.account_id, orders.organisation_id, orders.status_changed_at,
orders.hold_reason, orders.requested_quantity_grams, orders.requested_value_minor
"""
_MATCHES = """
($1::text IS NULL OR orders.organisation_id = $1) AND ($2::text IS NULL OR orders.account_id = $2)
  AND ($3::text IS NULL OR orders.mode::text = $3) AND ($4::text IS NULL OR orders.status = $4)
  AND ($5::text IS NULL OR orders.payment_state = $5) AND ($6::text IS NULL OR lower(orders.email) = lower($6))
  AND ($7::text IS NULL OR strpos(lower(orders.metadata), lower($7)) > 0)
  AND ($8::timestamptz IS NULL OR orders.created_at >= $8) AND ($9::timestamptz IS NULL OR orders.created_at < $9)
"""


class OrderSearch(Struct, frozen=True):
    """All that are set must match. `since` is included, `until` is not. `metadata` is a part of the JSON."""

    organisation_id: str | None = None
    account_id: str | None = None
    mode: str | None = None
    status: str | None = None
    payment_state: str | None = None
    email: str | None = None
    metadata: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def values(self) -> tuple[object, ...]:
        return (
            *(self.organisation_id, self.account_id, self.mode, self.status, self.payment_state),
            *(self.email, self.metadata, self.since, self.until),
        )


class FoundOrder(Struct, frozen=True, kw_only=True):
    id: str
    mode: str
    status: str
    payment_state: str
    created_at: datetime
    quantity_grams: int | None
    total_cost_minor: int | None
    # Null until the tax is known.
    amount_due_minor: int | None
    refunded_minor: int
    currency: str
    payment_method: str
    email: str | None
    beneficiary: str | None
    idempotency_key: str
    offset_link_id: str | None
    metadata: str
    account_id: str
    organisation_id: str
    status_changed_at: datetime
    hold_reason: str | None
    # One of the two is set. The quantity and the cost are null until the order is priced.
    requested_quantity_grams: int | None
    requested_value_minor: int | None


SEARCH_ORDERS = f"""
SELECT {FOUND} FROM orders WHERE {_MATCHES} ORDER BY orders.created_at DESC, orders.id DESC LIMIT $10
"""  # noqa: S608 - constants


async def search_orders_any_account(connection: Connection, search: OrderSearch, limit: int) -> list[FoundOrder]:
    """Newest first."""
    return _found(await connection.fetch(SEARCH_ORDERS, *search.values, limit))


FILTER_ORDERS = f"""
SELECT {FOUND} FROM unnest($11::text[], $12::text[]) AS wanted (account_id, id)
JOIN orders ON orders.account_id = wanted.account_id AND orders.id = wanted.id
WHERE {_MATCHES} ORDER BY orders.created_at DESC, orders.id DESC LIMIT $10
"""  # noqa: S608 - constants


async def filter_orders_any_account(
    connection: Connection, keys: Sequence[OrderKey], search: OrderSearch, limit: int
) -> list[FoundOrder]:
    """Those of the orders that match, newest first."""
    return _found(await connection.fetch(FILTER_ORDERS, *search.values, limit, *columns(keys, "account_id, id")))


def _found(rows: Sequence[asyncpg.Record]) -> list[FoundOrder]:
    return [FoundOrder(**row) for row in rows]


# Each part uses an index: ids and idempotency keys are looked up once per account.
FIND_KEYS = """
SELECT orders.account_id, orders.id FROM accounts JOIN orders ON orders.account_id = accounts.id AND orders.id = $1
UNION SELECT orders.account_id, orders.id
FROM accounts JOIN orders ON orders.account_id = accounts.id AND orders.idempotency_key = $1
UNION SELECT account_id, id FROM orders WHERE email IS NOT NULL AND lower(email) = lower($1)
UNION SELECT account_id, order_id FROM certificates WHERE number = upper($1)
UNION SELECT charges.account_id, coalesce(charges.order_id, billed.order_id) FROM charges
      LEFT JOIN invoice_orders billed ON billed.invoice_id = charges.invoice_id
      WHERE charges.id = $1 OR charges.reference = $1
UNION SELECT billed.account_id, billed.order_id FROM invoices
      JOIN invoice_orders billed ON billed.invoice_id = invoices.id
      WHERE invoices.id = $1 OR invoices.reference = upper($1)
UNION SELECT billed.account_id, billed.order_id FROM bank_transfers transfer
      JOIN invoice_orders billed ON billed.invoice_id = transfer.invoice_id
      WHERE transfer.id = $1 OR transfer.reference = $1
UNION SELECT account_id, order_id FROM checkouts WHERE id = $1 AND order_id IS NOT NULL
"""


async def find_keys_any_account(connection: Connection, term: str) -> list[OrderKey]:
    """The orders that a term names: an id, e-mail address, idempotency key, certificate, invoice or reference.

    The id may be the order's, or that of a charge, invoice, transfer or checkout.
    """
    return [OrderKey(row["account_id"], row["id"]) for row in await connection.fetch(FIND_KEYS, term)]
