"""SQL that inserts new orders with their lines: one order, or a batch of orders of any accounts."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tonne.platform.db.database import Connection, columns, parameters_of
from tonne.selling.orders.model import Order
from tonne.selling.orders.store import LINE_COLUMNS, price_columns, tax_columns

# In the order of `_values`.
ORDER_COLUMNS = """account_id, id, organisation_id, mode, idempotency_key, request_digest, type, status, currency, \
payment_method, requested_quantity_grams, requested_value_minor, quantity_grams, offset_cost_minor, total_cost_minor, \
commission_minor, fee_rate, exchange_rate, exchange_rate_source, exchange_rate_as_of, estimate_id, offset_link_id, \
email, metadata, beneficiary, created_at, next_attempt_at, wire_document, placed_by_key, tax_treatment, tax_rate, \
tax_minor, beneficiary_kind, beneficiary_is_public, language, quantity_trunc, quote_id, external_id, \
external_id_verified, reference, fulfil_after, fulfil_manually"""


class NewOrder(NamedTuple):
    order: Order
    request_digest: bytes
    document: bytes
    next_attempt_at: datetime | None
    placed_by_key: str | None


def _values(new: NewOrder) -> tuple[object, ...]:
    """In the order of `ORDER_COLUMNS`, and last the bundle selection as JSON."""
    order = new.order
    selection = order.bundle_selection
    return (
        order.scope.account_id,
        order.id,
        order.scope.organisation_id,
        order.scope.mode,
        order.idempotency_key,
        new.request_digest,
        order.type,
        order.status,
        order.currency,
        order.payment_method,
        order.requested_quantity_grams,
        order.requested_value_minor,
        *price_columns(order.priced),
        order.estimate_id,
        order.offset_link_id,
        order.email,
        order.metadata,
        order.beneficiary,
        order.created_at,
        new.next_attempt_at,
        new.document,
        new.placed_by_key,
        *tax_columns(order.tax),
        order.beneficiary_kind,
        order.beneficiary_is_public,
        order.language,
        order.quantity_trunc,
        order.quote_id,
        order.external_id,
        order.external_id_verified,
        order.reference,
        order.fulfil_after,
        order.fulfil_manually,
        None if selection is None else json.dumps(selection),
    )


# Inserts order and lines in one round trip. Returns false, and inserts nothing, if the idempotency key is taken.
INSERT_ORDER = f"""
WITH new AS (
    INSERT INTO orders ({ORDER_COLUMNS}, bundle_selection, status_changed_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
            $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42,
            $43::jsonb, $26)
    ON CONFLICT (account_id, idempotency_key) DO NOTHING
    RETURNING account_id, id
), lines AS (
    INSERT INTO order_lines (account_id, order_id, {LINE_COLUMNS}, position)
    SELECT new.account_id, new.id, line.*
    FROM new, unnest($44::text[], $45::text[], $46::text[], $47::bigint[], $48::bigint[], $49::bigint[],
                     $50::bigint[], $51::boolean[]) WITH ORDINALITY AS line
)
SELECT EXISTS (SELECT FROM new)
"""  # noqa: S608 - a constant


async def insert_order(tx: Connection, order: NewOrder) -> bool:
    return bool(await tx.fetchval(INSERT_ORDER, *_values(order), *columns(order.order.lines, LINE_COLUMNS)))


# The same for many orders. Returns the ids of those that were inserted. Rows as composite values cost half of what an
# array for each of the 53 columns costs here, and less in PostgreSQL.
INSERT_ORDERS = f"""
WITH new AS (
    INSERT INTO orders ({ORDER_COLUMNS}, bundle_selection, status_changed_at)
    SELECT {ORDER_COLUMNS}, bundle_selection::jsonb, created_at FROM unnest($1::new_order[])
    ON CONFLICT (account_id, idempotency_key) DO NOTHING
    RETURNING account_id, id
), lines AS (
    INSERT INTO order_lines (account_id, order_id, position, {LINE_COLUMNS})
    SELECT new.account_id, new.id, position, {LINE_COLUMNS}
    FROM unnest($2::new_order_line[]) AS line JOIN new ON new.id = line.order_id
)
SELECT id FROM new
"""  # noqa: S608 - a constant


async def insert_orders(tx: Connection, orders: Sequence[NewOrder]) -> set[str]:
    """The ids of the orders that were inserted. The idempotency keys of the others are taken.

    Rows are inserted in the order of account and key: two batches that share several keys then cannot deadlock.
    """
    ordered = sorted(orders, key=lambda new: (new.order.scope.account_id, new.order.idempotency_key))
    lines = [
        (new.order.id, position, *parameters_of(line, LINE_COLUMNS))
        for new in ordered
        for position, line in enumerate(new.order.lines, start=1)
    ]
    rows = await tx.fetch(INSERT_ORDERS, [_values(new) for new in ordered], lines)
    return {row["id"] for row in rows}


FIND_BY_KEYS = """
SELECT orders.account_id, orders.idempotency_key, orders.wire_document, orders.request_digest
FROM unnest($1::text[], $2::text[]) AS keys (account_id, idempotency_key)
JOIN orders ON orders.account_id = keys.account_id AND orders.idempotency_key = keys.idempotency_key
"""


class KeyOfClient(NamedTuple):
    account_id: str
    idempotency_key: str


async def find_by_keys(connection: Connection, keys: Sequence[KeyOfClient]) -> dict[KeyOfClient, tuple[bytes, bytes]]:
    """The document of each order, and the digest of the request that placed it."""
    rows = await connection.fetch(FIND_BY_KEYS, *columns(keys, "account_id, idempotency_key"))
    return {
        KeyOfClient(row["account_id"], row["idempotency_key"]): (row["wire_document"], row["request_digest"])
        for row in rows
    }
