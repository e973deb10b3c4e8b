"""Sums of orders by the values of metadata keys that an account has named.

Rows of `order_deltas` are added by a trigger when a worker folds them. `CountMetadata` counts the orders from before a
key was named.
"""

from collections.abc import Sequence
from datetime import UTC
from typing import ClassVar

from msgspec import Struct

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.session_settings import lift_limits
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Scope
from tonne.selling.orders.model import Order
from tonne.selling.orders.totals.bundle_totals import lock_pending

MAX_KEYS = 5
BATCH_ORDERS = 2_000
# Any number that no other lock uses. Folding takes it shared, in the trigger of the migration.
_LOCK = 7_405_610_257


class MetadataKey(Struct, frozen=True):
    """`is_complete`: all orders of the account are counted."""

    key: str
    is_complete: bool


LIST_KEYS = "SELECT key, is_complete FROM metadata_keys WHERE account_id = $1 ORDER BY key"


async def list_keys(connection: Connection, scope: Scope) -> list[MetadataKey]:
    return [MetadataKey(**row) for row in await connection.fetch(LIST_KEYS, scope.account_id)]


LOCK_COUNTING = "SELECT pg_advisory_xact_lock($1)"


async def _lock_counting(tx: Connection) -> None:
    """Wait for workers that fold, and block new ones until the transaction ends."""
    await tx.execute(LOCK_COUNTING, _LOCK)


DELETE_KEYS = "DELETE FROM metadata_keys WHERE account_id = $1 AND NOT key = ANY ($2::text[])"
DELETE_TOTALS = "DELETE FROM metadata_totals WHERE account_id = $1 AND NOT key = ANY ($2::text[])"
INSERT_KEYS = """
INSERT INTO metadata_keys (account_id, key, organisation_id, mode, created_at)
SELECT $1, key, $3, $4, $5 FROM unnest($2::text[]) AS new (key) ON CONFLICT DO NOTHING
"""


async def set_keys(tx: Connection, scope: Scope, keys: Sequence[str], *, by: By) -> None:
    """Replace the keys of the account. Sums of keys that are no longer named are deleted."""
    await _lock_counting(tx)
    before = [each.key for each in await list_keys(tx, scope)]
    named = sorted(set(keys))
    await tx.execute(DELETE_KEYS, scope.account_id, named)
    await tx.execute(DELETE_TOTALS, scope.account_id, named)
    await tx.execute(INSERT_KEYS, scope.account_id, named, scope.organisation_id, scope.mode, by.at)
    await audit.record(
        tx,
        scope,
        "account.metadata_keys_set",
        by=by,
        before={"metadata_keys": before},
        after={"metadata_keys": named},
    )


FIND_TO_SCAN = """
SELECT account_id, key, organisation_id, mode, scanned_at, scanned_id FROM metadata_keys
WHERE NOT is_complete ORDER BY created_at, account_id, key LIMIT 1
"""
# What is pending is subtracted, because it is added when it is folded.
SCAN_ORDERS = """
WITH batch AS MATERIALIZED (
    SELECT id, created_at, (created_at AT TIME ZONE 'UTC')::date AS day, currency::text AS currency, status,
           coalesce(quantity_grams, 0) AS grams, coalesce(offset_cost_minor, 0) AS offset_cost_minor,
           coalesce(total_cost_minor + billing_adjustment_minor, 0) AS cost_minor, coalesce(tax_minor, 0) AS tax_minor,
           refunded_minor,
           metadata_value(metadata, $2) AS value
    FROM orders WHERE account_id = $1 AND (created_at, id) > ($5, $6) ORDER BY created_at, id LIMIT $7
), counted AS (
    SELECT day, value, currency, status, 1 AS orders, grams, offset_cost_minor, cost_minor, tax_minor, refunded_minor
    FROM batch WHERE value IS NOT NULL
    UNION ALL
    SELECT delta.day, batch.value, delta.currency, delta.status, -delta.orders, -delta.grams, -delta.offset_cost_minor,
           -delta.cost_minor, -delta.tax_minor, -delta.refunded_minor
    FROM batch JOIN order_deltas delta
      ON delta.organisation_id = $3 AND delta.mode = $4 AND delta.order_id = batch.id
    WHERE batch.value IS NOT NULL
), added AS (
    INSERT INTO metadata_totals AS total (account_id, key, day, value, currency, status, orders, grams,
                                          offset_cost_minor, cost_minor, tax_minor, refunded_minor)
    SELECT $1, $2, day, value, currency, status, sum(orders), sum(grams), sum(offset_cost_minor), sum(cost_minor),
           sum(tax_minor), sum(refunded_minor)
    FROM counted GROUP BY day, value, currency, status ORDER BY day, value, currency, status
    ON CONFLICT (account_id, key, day, value, currency, status) DO UPDATE
    SET orders = total.orders + excluded.orders, grams = total.grams + excluded.grams,
        offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor,
        cost_minor = total.cost_minor + excluded.cost_minor, tax_minor = total.tax_minor + excluded.tax_minor,
        refunded_minor = total.refunded_minor + excluded.refunded_minor
), last AS (
    SELECT created_at, id, (SELECT count(*) FROM batch) < $7 AS is_last
    FROM batch ORDER BY created_at DESC, id DESC LIMIT 1
)
UPDATE metadata_keys SET scanned_at = coalesce((SELECT created_at FROM last), scanned_at),
    scanned_id = coalesce((SELECT id FROM last), scanned_id),
    is_complete = coalesce((SELECT is_last FROM last), true)
WHERE account_id = $1 AND key = $2
"""


async def scan_next_any_account(tx: Connection, limit: int) -> bool:
    """Count the next `limit` orders for a key whose orders are not all counted. False if there is none."""
    await _lock_counting(tx)
    row = await tx.fetchrow(FIND_TO_SCAN)
    if row is not None:
        await lift_limits(tx)
        await tx.execute(SCAN_ORDERS, *row.values(), limit)
    return row is not None


class CountMetadata:
    """A job of the worker."""

    EVERY_S: ClassVar[int] = 2

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run_once(self) -> bool:
        async with self._database.transaction() as tx:
            return await scan_next_any_account(tx, BATCH_ORDERS)


LOCK_KEYS = "SELECT pg_advisory_xact_lock_shared($1)"
# What is folded of the order: all that counts now, without what is pending.
MOVE_VALUES = """
WITH folded AS (
    SELECT day, currency, status, sum(orders) AS orders, sum(grams) AS grams, sum(offset_cost_minor)
               AS offset_cost_minor, sum(cost_minor) AS cost_minor, sum(tax_minor) AS tax_minor,
           sum(refunded_minor) AS refunded_minor
    FROM (SELECT (created_at AT TIME ZONE 'UTC')::date AS day, currency::text AS currency, status, 1 AS orders,
                 coalesce(quantity_grams, 0) AS grams, coalesce(offset_cost_minor, 0) AS offset_cost_minor,
                 coalesce(total_cost_minor + billing_adjustment_minor, 0) AS cost_minor,
                 coalesce(tax_minor, 0) AS tax_minor, refunded_minor
          FROM orders WHERE account_id = $3 AND id = $4
          UNION ALL
          SELECT day, currency, status, -orders, -grams, -offset_cost_minor, -cost_minor, -tax_minor, -refunded_minor
          FROM order_deltas WHERE organisation_id = $1 AND mode = $2 AND order_id = $4) each
    GROUP BY day, currency, status
), moved AS (
    SELECT named.key, change.value, change.times
    FROM orders JOIN metadata_keys named ON named.account_id = orders.account_id
    CROSS JOIN LATERAL (VALUES (metadata_value(orders.metadata, named.key), -1), (metadata_value($5, named.key), 1))
        AS change (value, times)
    WHERE orders.account_id = $3 AND orders.id = $4 AND change.value IS NOT NULL
      AND (named.is_complete OR (orders.created_at, orders.id) <= (named.scanned_at, named.scanned_id))
)
INSERT INTO metadata_totals AS total (account_id, key, day, value, currency, status, orders, grams, offset_cost_minor,
                                      cost_minor, tax_minor, refunded_minor)
SELECT $3, key, day, value, currency, status, sum(times * orders), sum(times * grams),
       sum(times * offset_cost_minor), sum(times * cost_minor), sum(times * tax_minor), sum(times * refunded_minor)
FROM folded CROSS JOIN moved GROUP BY key, day, value, currency, status ORDER BY key, day, value, currency, status
ON CONFLICT (account_id, key, day, value, currency, status) DO UPDATE
SET orders = total.orders + excluded.orders, grams = total.grams + excluded.grams,
    offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor,
    cost_minor = total.cost_minor + excluded.cost_minor, tax_minor = total.tax_minor + excluded.tax_minor,
    refunded_minor = total.refunded_minor + excluded.refunded_minor
"""
# A value that no order has any more may be what was erased.
DELETE_EMPTY = """
DELETE FROM metadata_totals
WHERE account_id = $1 AND key IN (SELECT key FROM metadata_keys WHERE account_id = $1) AND day = $2
  AND orders = 0 AND grams = 0 AND offset_cost_minor = 0 AND cost_minor = 0 AND tax_minor = 0 AND refunded_minor = 0
"""


async def move_values(tx: Connection, order: Order, metadata: str) -> None:
    """Count a locked order by its new metadata, before that is stored."""
    scope = order.scope
    await tx.execute(LOCK_KEYS, _LOCK)
    await lock_pending(tx, order)
    await tx.execute(MOVE_VALUES, scope.organisation_id, scope.mode, scope.account_id, order.id, metadata)
    await tx.execute(DELETE_EMPTY, scope.account_id, order.created_at.astimezone(UTC).date())
