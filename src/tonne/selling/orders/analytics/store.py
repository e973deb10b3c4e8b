"""SQL of analytics. It reads totals and what is not folded into them yet: the sums are exact at any time."""

from collections.abc import Sequence
from datetime import date

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.selling.orders.analytics.model import Accounts, DayRange, Grouping, Interval
from tonne.selling.orders.totals.bundle_totals import FACTS_OF_NET, NET_COLUMNS

# The accounts, and what changed in the period and is not folded yet. Cancelled and failed orders do not count.
_CHOSEN = """
chosen AS MATERIALIZED (
    SELECT id FROM accounts
    WHERE organisation_id = $1 AND mode = $2 AND ($3::text IS NULL OR id = $3)
      AND ($4::text[] IS NULL OR id = ANY ($4::text[]))
)
"""
_PENDING = """
FROM order_deltas
WHERE organisation_id = $1 AND mode = $2 AND day BETWEEN $5 AND $6
  AND account_id IN (SELECT id FROM chosen)
"""
_START = "CASE $7::text WHEN 'day' THEN day WHEN 'month' THEN date_trunc('month', day)::date END"


def _of(scope: Scope, accounts: Accounts, period: DayRange) -> tuple[object, ...]:
    return scope.organisation_id, scope.mode, accounts.account_id, accounts.allowed, period.first, period.last


class OrderSums(Struct, frozen=True):
    """Sums of whole orders. `start` is the day or the first day of the month; None if the sum is for all."""

    start: date | None
    account_id: str | None
    value: str | None
    currency: str
    orders: int
    grams: int
    offset_cost_minor: int
    cost_minor: int
    tax_minor: int
    refunded_minor: int


SUM_ORDERS = f"""
WITH {_CHOSEN}
SELECT {_START} AS start, CASE WHEN $8 THEN account_id END AS account_id, NULL::text AS value, currency,
       sum(orders)::bigint AS orders, sum(grams)::bigint AS grams, sum(offset_cost_minor)::bigint AS offset_cost_minor,
       sum(cost_minor)::bigint AS cost_minor, sum(tax_minor)::bigint AS tax_minor,
       sum(refunded_minor)::bigint AS refunded_minor
FROM (SELECT account_id, day, currency, status, orders, grams, offset_cost_minor, cost_minor, tax_minor, refunded_minor
      FROM account_totals WHERE account_id IN (SELECT id FROM chosen) AND day BETWEEN $5 AND $6
      UNION ALL
      SELECT account_id, day, currency, status, orders, grams, offset_cost_minor, cost_minor, tax_minor, refunded_minor
      {_PENDING}) counted
WHERE status NOT IN ('cancelled', 'failed')
GROUP BY 1, 2, 4 HAVING sum(orders) <> 0 ORDER BY 1, 2, 4 LIMIT $9
"""  # noqa: S608 - constants


async def sum_orders(
    connection: Connection, scope: Scope, accounts: Accounts, period: DayRange, grouping: Grouping, *, limit: int
) -> list[OrderSums]:
    flags = (grouping.interval, grouping.by_account, limit)
    return [OrderSums(**row) for row in await connection.fetch(SUM_ORDERS, *_of(scope, accounts, period), *flags)]


# With $11, only orders with this value. Pending changes are counted for keys that have counted the order.
SUM_METADATA = f"""
WITH {_CHOSEN}
SELECT {_START} AS start, CASE WHEN $8 THEN account_id END AS account_id, CASE WHEN $12 THEN value END AS value,
       currency, sum(orders)::bigint AS orders, sum(grams)::bigint AS grams,
       sum(offset_cost_minor)::bigint AS offset_cost_minor, sum(cost_minor)::bigint AS cost_minor,
       sum(tax_minor)::bigint AS tax_minor, sum(refunded_minor)::bigint AS refunded_minor
FROM (SELECT account_id, day, value, currency, status, orders, grams, offset_cost_minor, cost_minor, tax_minor,
             refunded_minor
      FROM metadata_totals
      WHERE account_id IN (SELECT id FROM chosen) AND key = $10 AND day BETWEEN $5 AND $6
      UNION ALL
      SELECT delta.account_id, delta.day, metadata_value(orders.metadata, $10), delta.currency, delta.status,
             delta.orders, delta.grams, delta.offset_cost_minor, delta.cost_minor, delta.tax_minor,
             delta.refunded_minor
      FROM (SELECT account_id, order_id, day, currency, status, orders, grams, offset_cost_minor, cost_minor,
                   tax_minor, refunded_minor {_PENDING}) delta
      JOIN orders ON orders.account_id = delta.account_id AND orders.id = delta.order_id
      JOIN metadata_keys named ON named.account_id = delta.account_id AND named.key = $10
      WHERE named.is_complete OR (orders.created_at, orders.id) <= (named.scanned_at, named.scanned_id)) counted
WHERE status NOT IN ('cancelled', 'failed') AND value IS NOT NULL AND ($11::text IS NULL OR value = $11)
GROUP BY 1, 2, 3, 4 HAVING sum(orders) <> 0 ORDER BY 1, 2, 3, 4 LIMIT $9
"""  # noqa: S608 - constants


async def sum_metadata(
    connection: Connection,
    scope: Scope,
    accounts: Accounts,
    period: DayRange,
    grouping: Grouping,
    *,
    key: str,
    value: str | None,
    by_value: bool,
    limit: int,
) -> list[OrderSums]:
    flags = (grouping.interval, grouping.by_account, limit, key, value, by_value)
    return [OrderSums(**row) for row in await connection.fetch(SUM_METADATA, *_of(scope, accounts, period), *flags)]


class BundleSums(Struct, frozen=True):
    """Sums of the parts of orders. `project_id` is empty for what is not allocated, and None if not grouped by it."""

    start: date | None
    account_id: str | None
    bundle_id: str | None
    project_id: str | None
    currency: str
    parts: int
    bundle_orders: int
    project_orders: int
    grams: int
    offset_cost_minor: int


SUM_BUNDLES = f"""
WITH {_CHOSEN}, net AS MATERIALIZED (SELECT {NET_COLUMNS} {_PENDING} GROUP BY account_id, order_id, day, currency),
fact AS ({FACTS_OF_NET})
SELECT {_START} AS start, CASE WHEN $8 THEN account_id END AS account_id, CASE WHEN $10 THEN bundle_id END AS bundle_id,
       CASE WHEN $11 THEN project_id END AS project_id, currency, sum(parts)::bigint AS parts,
       sum(bundle_orders)::bigint AS bundle_orders, sum(project_orders)::bigint AS project_orders,
       sum(grams)::bigint AS grams, sum(offset_cost_minor)::bigint AS offset_cost_minor
FROM (SELECT account_id, day, bundle_id, project_id, currency, parts, bundle_orders, project_orders, grams,
             offset_cost_minor
      FROM bundle_totals WHERE account_id IN (SELECT id FROM chosen) AND day BETWEEN $5 AND $6
      UNION ALL
      SELECT account_id, day, bundle_id, project_id, currency, parts, bundle_orders, project_orders, grams,
             offset_cost_minor
      FROM fact) counted
GROUP BY 1, 2, 3, 4, 5 HAVING sum(grams) <> 0 ORDER BY 1, 2, 3, 4, 5 LIMIT $9
"""  # noqa: S608 - constants


async def sum_bundles(
    connection: Connection, scope: Scope, accounts: Accounts, period: DayRange, grouping: Grouping, *, limit: int
) -> list[BundleSums]:
    flags = (grouping.interval, grouping.by_account, limit, grouping.by_bundle, grouping.by_project)
    return [BundleSums(**row) for row in await connection.fetch(SUM_BUNDLES, *_of(scope, accounts, period), *flags)]


COUNT_ESTIMATES = f"""
WITH {_CHOSEN}
SELECT {_START} AS start, sum(estimates)::bigint AS estimates
FROM (SELECT day, estimates FROM estimate_days
      WHERE account_id IN (SELECT id FROM chosen) AND day BETWEEN $5 AND $6
      UNION ALL
      SELECT day, estimates FROM estimate_deltas
      WHERE account_id IN (SELECT id FROM chosen) AND day BETWEEN $5 AND $6) counted
GROUP BY 1
"""  # noqa: S608 - constants


async def count_estimates(
    connection: Connection, scope: Scope, accounts: Accounts, period: DayRange, interval: Interval
) -> dict[date, int]:
    rows = await connection.fetch(COUNT_ESTIMATES, *_of(scope, accounts, period), interval)
    return {row["start"]: row["estimates"] for row in rows}


# The latest order of each account is the end of an index.
LAST_ORDER_DAYS = """
SELECT accounts.id, (newest.created_at AT TIME ZONE 'UTC')::date AS day
FROM accounts CROSS JOIN LATERAL (
    SELECT created_at FROM orders WHERE orders.account_id = accounts.id ORDER BY created_at DESC, id DESC LIMIT 1
) AS newest
WHERE accounts.organisation_id = $1 AND accounts.mode = $2 AND accounts.id = ANY ($3::text[])
"""


async def last_order_days(connection: Connection, scope: Scope, account_ids: Sequence[str]) -> dict[str, date]:
    """Of accounts of the organisation and mode, by their ids. Accounts without an order are missing."""
    rows = await connection.fetch(LAST_ORDER_DAYS, scope.organisation_id, scope.mode, list(account_ids))
    return {row["id"]: row["day"] for row in rows}
