"""SQL that inserts new orders with their lines: one order, or a batch of orders of any accounts."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tonne.platform.db.database import Connection, columns
from tonne.selling.orders.model import Order
from tonne.selling.orders.store import LINE_COLUMNS, price_columns, tax_columns

# In the order of `_values`.
_COLUMNS = """account_id, id, organisation_id, mode, idempotency_key, request_digest, type, status, currency, \
payment_method, requested_quantity_grams, requested_value_minor, quantity_grams, offset_cost_minor, total_cost_minor, \
commission_minor, fee_rate, exchange_rate, exchange_rate_source, exchange_rate_as_of, estimate_id, offset_link_id, \
email, metadata, beneficiary, created_at, next_attempt_at, wire_document, placed_by_key, tax_treatment, tax_rate, \
tax_minor, beneficiary_kind, beneficiary_is_public, language, quantity_trunc, quote_id, external_id, \
external_id_verified, reference"""


class NewOrder(NamedTuple):
    order: Order
    request_digest: bytes
    document: bytes
    next_attempt_at: datetime | None
    placed_by_key: str | None


def _values(new: NewOrder) -> tuple[object, ...]:
    """In the order of `_COLUMNS`, and last the bundle selection as JSON."""
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
        None if selection is None else json.dumps(selection),
    )


# Inserts order and lines in one round trip. Returns false, and inserts nothing, if the idempotency key is taken.
INSERT_ORDER = f"""
WITH new AS (
    INSERT INTO orders ({_COLUMNS}, bundle_selection, status_changed_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
            $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41::jsonb, $26)
    ON CONFLICT (account_id, idempotency_key) DO NOTHING
    RETURNING account_id, id
), lines AS (
    INSERT INTO order_lines (account_id, order_id, {LINE_COLUMNS}, position)
    SELECT new.account_id, new.id, line.*
    FROM new, unnest($42::text[], $43::text[], $44::text[], $45::bigint[], $46::bigint[], $47::bigint[],
                     $48::bigint[], $49::boolean[]) WITH ORDINALITY AS line
)
SELECT EXISTS (SELECT FROM new)
"""  # noqa: S608 - a constant


async def insert_order(tx: Connection, order: NewOrder) -> bool:
    inserted: bool = await tx.fetchval(INSERT_ORDER, *_values(order), *columns(order.order.lines, LINE_COLUMNS))
    return inserted


# The same for many orders. Returns the ids of those that were inserted.
INSERT_ORDERS = f"""
WITH new AS (
    INSERT INTO orders ({_COLUMNS}, bundle_selection, status_changed_at)
    SELECT {_COLUMNS}, bundle_selection::jsonb, created_at
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[], $8::text[],
                $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
                $16::bigint[], $17::numeric[], $18::numeric[], $19::text[], $20::timestamptz[], $21::text[],
                $22::text[], $23::text[], $24::text[], $25::text[], $26::timestamptz[], $27::timestamptz[],
                $28::bytea[], $29::text[], $30::text[], $31::numeric[], $32::bigint[], $33::text[], $34::boolean[],
                $35::text[], $36::text[], $37::text[], $38::text[], $39::boolean[], $40::text[], $41::text[])
         AS item ({_COLUMNS}, bundle_selection)
    ON CONFLICT (account_id, idempotency_key) DO NOTHING
    RETURNING account_id, id
), lines AS (
    INSERT INTO order_lines (account_id, order_id, position, {LINE_COLUMNS})
    SELECT new.account_id, new.id, position, {LINE_COLUMNS}
    FROM unnest($42::text[], $43::smallint[], $44::text[], $45::text[], $46::text[], $47::bigint[], $48::bigint[],
                $49::bigint[], $50::bigint[], $51::boolean[])
         AS line (order_id, position, {LINE_COLUMNS})
    JOIN new ON new.id = line.order_id
)
SELECT id FROM new
"""  # noqa: S608 - a constant


async def insert_orders(tx: Connection, orders: Sequence[NewOrder]) -> set[str]:
    """The ids of the orders that were inserted. The idempotency keys of the others are taken.

    Rows are inserted in the order of account and key: two batches that share several keys then cannot deadlock.
    """
    ordered = sorted(orders, key=lambda new: (new.order.scope.account_id, new.order.idempotency_key))
    lines = [
        (new.order.id, position, line) for new in ordered for position, line in enumerate(new.order.lines, start=1)
    ]
    rows = await tx.fetch(
        INSERT_ORDERS,
        *zip(*map(_values, ordered), strict=True),
        [order_id for order_id, _, _ in lines],
        [position for _, position, _ in lines],
        *columns([line for _, _, line in lines], LINE_COLUMNS),
    )
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
