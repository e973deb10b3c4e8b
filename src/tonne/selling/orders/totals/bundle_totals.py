"""Sums of orders by bundle and project, and how changes that are not folded yet count in them.

`order_deltas` names the orders that changed. Orders in `placed` and `paid` count under their bundles, orders in
`retiring` and `complete` under bundles and projects, all others not at all.
"""

from tonne.platform.db.database import Connection
from tonne.selling.orders.model import Order

# How often each order counts by its bundles, and by its projects: columns of rows of `order_deltas`, by these four.
NET_COLUMNS = """
account_id, order_id, day, currency,
       coalesce(sum(orders) FILTER (WHERE status IN ('placed', 'paid')), 0) AS waiting,
       coalesce(sum(orders) FILTER (WHERE status IN ('retiring', 'complete')), 0) AS allocated
"""
# From a relation `net` with the columns above.
FACTS_OF_NET = """
(SELECT net.account_id, net.day, line.bundle_id, '' AS project_id, net.currency, net.waiting AS parts,
       net.waiting AS bundle_orders, CASE WHEN line.position = 1 THEN net.waiting ELSE 0 END AS project_orders,
       net.waiting * line.quantity_grams AS grams, net.waiting * line.offset_cost_minor AS offset_cost_minor
FROM net JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
WHERE net.waiting <> 0
UNION ALL
SELECT net.account_id, net.day, line.bundle_id, project.project_id, net.currency, net.allocated,
       CASE WHEN project.position = min(project.position) OVER (
           PARTITION BY net.account_id, net.order_id, net.day, project.line_position) THEN net.allocated ELSE 0 END,
       CASE WHEN project.position = min(project.position) OVER (
           PARTITION BY net.account_id, net.order_id, net.day, project.project_id) THEN net.allocated ELSE 0 END,
       net.allocated * project.quantity_grams, net.allocated * project.offset_cost_minor
FROM net
JOIN order_projects project ON project.account_id = net.account_id AND project.order_id = net.order_id
JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
 AND line.position = project.line_position
WHERE net.allocated <> 0)
"""


# Waits for a worker that folds these rows. Workers skip rows that are locked here.
LOCK_PENDING = """
SELECT id FROM order_deltas WHERE organisation_id = $1 AND mode = $2 AND order_id = $3 FOR UPDATE
"""


async def lock_pending(tx: Connection, order: Order) -> None:
    """Nothing of a locked order is folded from now on until the transaction ends."""
    await tx.execute(LOCK_PENDING, order.scope.organisation_id, order.scope.mode, order.id)


# What is folded of the order: all that counts now, without what is pending.
COUNT_LINES = f"""
INSERT INTO bundle_totals AS total (account_id, day, bundle_id, project_id, currency, parts, bundle_orders,
                                    project_orders, grams, offset_cost_minor)
WITH net AS MATERIALIZED (
    SELECT account_id, order_id, day, currency,
           $5::integer * coalesce(sum(orders) FILTER (WHERE status IN ('placed', 'paid')), 0) AS waiting,
           $5::integer * coalesce(sum(orders) FILTER (WHERE status IN ('retiring', 'complete')), 0) AS allocated
    FROM (SELECT account_id, id AS order_id, (created_at AT TIME ZONE 'UTC')::date AS day, currency::text AS currency,
                 status, 1 AS orders
          FROM orders WHERE account_id = $3 AND id = $4
          UNION ALL
          SELECT account_id, order_id, day, currency, status, -orders FROM order_deltas
          WHERE organisation_id = $1 AND mode = $2 AND order_id = $4) each
    GROUP BY account_id, order_id, day, currency
), fact AS ({FACTS_OF_NET})
SELECT account_id, day, bundle_id, project_id, currency, sum(parts), sum(bundle_orders), sum(project_orders),
       sum(grams), sum(offset_cost_minor)
FROM fact GROUP BY account_id, day, bundle_id, project_id, currency
ORDER BY account_id, day, bundle_id, project_id, currency
ON CONFLICT (account_id, day, bundle_id, project_id, currency) DO UPDATE
SET parts = total.parts + excluded.parts, bundle_orders = total.bundle_orders + excluded.bundle_orders,
    project_orders = total.project_orders + excluded.project_orders, grams = total.grams + excluded.grams,
    offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor
"""  # noqa: S608 - constants


async def count_lines(tx: Connection, order: Order, *, times: int) -> None:
    """Add the stored lines and projects of a locked order `times` to the totals, as far as the order is folded.

    Call it with -1 before they change and with 1 afterwards, after `lock_pending`.
    """
    scope = order.scope
    await tx.execute(COUNT_LINES, scope.organisation_id, scope.mode, scope.account_id, order.id, times)
