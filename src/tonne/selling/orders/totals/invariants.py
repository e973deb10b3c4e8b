"""The totals that analytics show equal the orders and estimates."""

from tonne.platform.db.invariant import Invariant, SharedScan

_MEANING = "Analytics show wrong sums: orders were written without the triggers that count them."
_MEASURES = ("orders", "grams", "offset_cost_minor", "cost_minor", "tax_minor", "refunded_minor")
_NAMES = ", ".join(_MEASURES)
_MINUS = ", ".join(f"-{name}" for name in _MEASURES)
_DIFFERS = " OR ".join(f"sum({name}) <> 0" for name in _MEASURES)
_OF_ORDERS = """
(SELECT account_id, id, metadata, (created_at AT TIME ZONE 'UTC')::date AS day, currency::text AS currency, status,
       1 AS orders, coalesce(quantity_grams, 0) AS grams, coalesce(offset_cost_minor, 0) AS offset_cost_minor,
       coalesce(total_cost_minor + billing_adjustment_minor, 0) AS cost_minor, coalesce(tax_minor, 0) AS tax_minor,
       refunded_minor
FROM orders)
"""

# The projects of all orders, each with its bundle, for every total of them; and how often an order is counted: once,
# but for changes that are not folded yet.
PARTS = SharedScan("""
    part AS MATERIALIZED (
        SELECT project.account_id, project.order_id, line.bundle_id, project.project_id,
               project.quantity_grams AS grams, project.offset_cost_minor,
               (row_number() OVER of_line = 1)::integer AS first_of_line,
               (row_number() OVER of_project = 1)::integer AS first_of_project
        FROM order_projects project
        JOIN order_lines line ON line.account_id = project.account_id AND line.order_id = project.order_id
         AND line.position = project.line_position
        WINDOW of_line AS (PARTITION BY project.order_id, project.line_position ORDER BY project.position),
               of_project AS (PARTITION BY project.order_id, project.project_id ORDER BY project.position)
    ), counted_order AS MATERIALIZED (
        SELECT account_id, id AS order_id, (created_at AT TIME ZONE 'UTC')::date AS day, currency::text AS currency,
               status, 1 AS orders
        FROM orders
        UNION ALL SELECT account_id, order_id, day, currency, status, -orders FROM order_deltas
    )
""")

TOTALS = (
    Invariant(
        "the totals of accounts match the orders",
        _MEANING,
        f"""
        SELECT format('%s orders of account %s on %s: %s orders, %s g, %s cost are not counted', status, account_id,
                      day, sum(orders), sum(grams), money_text(sum(cost_minor), currency)) AS "where"
        FROM (SELECT account_id, day, currency, status, {_NAMES} FROM {_OF_ORDERS} one
              UNION ALL SELECT account_id, day, currency, status, {_MINUS} FROM account_totals
              UNION ALL SELECT account_id, day, currency, status, {_MINUS} FROM order_deltas) counted
        GROUP BY account_id, day, currency, status HAVING {_DIFFERS}
        """,  # noqa: S608 - constants
    ),
    Invariant(
        "the totals of bundles and projects match the orders",
        _MEANING,
        """
        SELECT format('bundle %s, project %s of account %s on %s: %s orders, %s g, %s cost are not counted',
                      bundle_id, project_id, account_id, day, sum(parts), sum(grams),
                      money_text(sum(offset_cost_minor), currency)) AS "where"
        FROM (SELECT account_id, day, bundle_id, project_id, currency, orders AS parts,
                     orders * first_of_line AS bundle_orders, orders * first_of_project AS project_orders,
                     orders * grams AS grams, orders * offset_cost_minor AS offset_cost_minor
              FROM part JOIN counted_order USING (account_id, order_id) WHERE status IN ('retiring', 'complete')
              UNION ALL
              SELECT account_id, day, bundle_id, '', currency, orders, orders,
                     CASE WHEN position = 1 THEN orders ELSE 0 END, orders * quantity_grams, orders * offset_cost_minor
              FROM order_lines JOIN counted_order USING (account_id, order_id) WHERE status IN ('placed', 'paid')
              UNION ALL
              SELECT account_id, day, bundle_id, project_id, currency, -parts, -bundle_orders, -project_orders, -grams,
                     -offset_cost_minor
              FROM bundle_totals) counted
        GROUP BY account_id, day, bundle_id, project_id, currency
        HAVING sum(parts) <> 0 OR sum(bundle_orders) <> 0 OR sum(project_orders) <> 0 OR sum(grams) <> 0
            OR sum(offset_cost_minor) <> 0
        """,
        PARTS,
        is_slow=True,
    ),
    Invariant(
        "the totals of metadata match the orders",
        _MEANING,
        f"""
        SELECT format('key %s of account %s on %s: %s orders, %s g, %s cost are not counted', key, account_id, day,
                      sum(orders), sum(grams), money_text(sum(cost_minor), currency)) AS "where"
        FROM (SELECT one.account_id, named.key, day, metadata_value(metadata, named.key) AS value, currency, status,
                     {_NAMES}
              FROM {_OF_ORDERS} one JOIN metadata_keys named ON named.account_id = one.account_id AND is_complete
              UNION ALL
              SELECT delta.account_id, named.key, delta.day, metadata_value(orders.metadata, named.key), delta.currency,
                     delta.status, {", ".join(f"-delta.{name}" for name in _MEASURES)}
              FROM order_deltas delta
              JOIN metadata_keys named ON named.account_id = delta.account_id AND is_complete
              JOIN orders ON orders.account_id = delta.account_id AND orders.id = delta.order_id
              UNION ALL
              SELECT account_id, key, day, value, currency, status, {_MINUS}
              FROM metadata_totals JOIN metadata_keys USING (account_id, key) WHERE is_complete) counted
        WHERE value IS NOT NULL
        GROUP BY account_id, key, day, value, currency, status HAVING {_DIFFERS}
        """,  # noqa: S608 - constants
        is_slow=True,
    ),
    Invariant(
        "the numbers of estimates match the estimates",
        "Analytics show wrong numbers: estimates were written without the trigger that counts them.",
        """
        SELECT format('account %s on %s: %s estimates are not counted', account_id, day, sum(estimates)) AS "where"
        FROM (SELECT account_id, (created_at AT TIME ZONE 'UTC')::date AS day, count(*) AS estimates FROM estimates
              GROUP BY 1, 2
              UNION ALL SELECT account_id, day, -estimates FROM estimate_days
              UNION ALL SELECT account_id, day, -estimates FROM estimate_deltas) counted
        GROUP BY account_id, day HAVING sum(estimates) <> 0
        """,
    ),
)
