"""Adds copied rows to the totals and to the log: no triggers run for copies.

Each statement adds the difference between the rows and what is counted, so a second run adds nothing.
"""

from bench.environment import Environment
from tonne.money.accounting.books.post_entries import BATCH_ROWS, record_differences, take_due
from tonne.money.accounting.journal.sources import TABLES
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings

COUNT_ORDERS = """
INSERT INTO order_totals AS total (organisation_id, mode, month, currency, status, orders, grams, cost_minor, tax_minor,
                                   refunded_minor)
SELECT organisation_id, mode, month, currency, status, sum(orders), sum(grams), sum(cost_minor), sum(tax_minor),
       sum(refunded_minor)
FROM (SELECT organisation_id, mode, date_trunc('month', created_at AT TIME ZONE 'UTC')::date AS month,
             currency::text AS currency, status, count(*) AS orders, coalesce(sum(quantity_grams), 0) AS grams,
             coalesce(sum(total_cost_minor), 0) AS cost_minor, coalesce(sum(tax_minor), 0) AS tax_minor,
             sum(refunded_minor) AS refunded_minor
      FROM orders GROUP BY 1, 2, 3, 4, 5
      UNION ALL
      SELECT organisation_id, mode, month, currency, status, -orders, -grams, -cost_minor, -tax_minor, -refunded_minor
      FROM order_totals
      UNION ALL
      SELECT organisation_id, mode, month, currency, status, -orders, -grams, -cost_minor, -tax_minor, -refunded_minor
      FROM order_deltas) counted
GROUP BY organisation_id, mode, month, currency, status
HAVING sum(orders) <> 0 OR sum(grams) <> 0 OR sum(cost_minor) <> 0 OR sum(tax_minor) <> 0 OR sum(refunded_minor) <> 0
ON CONFLICT (organisation_id, mode, month, currency, status) DO UPDATE
SET orders = total.orders + excluded.orders,
    grams = total.grams + excluded.grams,
    cost_minor = total.cost_minor + excluded.cost_minor,
    tax_minor = total.tax_minor + excluded.tax_minor,
    refunded_minor = total.refunded_minor + excluded.refunded_minor
"""
COUNT_ESTIMATES = """
INSERT INTO estimate_deltas (account_id, day, estimates)
SELECT account_id, day, sum(estimates)
FROM (SELECT account_id, (created_at AT TIME ZONE 'UTC')::date AS day,
       count(*) AS estimates FROM estimates GROUP BY 1, 2
      UNION ALL SELECT account_id, day, -estimates FROM estimate_days
      UNION ALL SELECT account_id, day, -estimates FROM estimate_deltas) counted
GROUP BY account_id, day HAVING sum(estimates) <> 0
"""
COUNT_ACCOUNTS = """
INSERT INTO account_totals AS total (account_id, day, currency, status, orders, grams, offset_cost_minor, cost_minor,
                                     tax_minor, refunded_minor)
SELECT account_id, day, currency, status, sum(orders), sum(grams), sum(offset_cost_minor),
       sum(cost_minor), sum(tax_minor), sum(refunded_minor)
FROM (SELECT account_id, (created_at AT TIME ZONE 'UTC')::date AS day, currency::text AS currency, status, 1 AS orders,
             coalesce(quantity_grams, 0) AS grams, coalesce(offset_cost_minor, 0) AS offset_cost_minor,
             coalesce(total_cost_minor, 0) AS cost_minor, coalesce(tax_minor, 0) AS tax_minor, refunded_minor
      FROM orders
      UNION ALL
      SELECT account_id, day, currency, status, -orders, -grams, -offset_cost_minor, -cost_minor, -tax_minor,
             -refunded_minor
      FROM account_totals
      UNION ALL
      SELECT account_id, day, currency, status, -orders, -grams, -offset_cost_minor, -cost_minor, -tax_minor,
             -refunded_minor
      FROM order_deltas) counted
GROUP BY account_id, day, currency, status
HAVING sum(orders) <> 0 OR sum(grams) <> 0 OR sum(offset_cost_minor) <> 0 OR sum(cost_minor) <> 0 OR sum(tax_minor) <> 0
    OR sum(refunded_minor) <> 0
ON CONFLICT (account_id, day, currency, status) DO UPDATE
SET orders = total.orders + excluded.orders,
    grams = total.grams + excluded.grams,
    offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor,
    cost_minor = total.cost_minor + excluded.cost_minor,
    tax_minor = total.tax_minor + excluded.tax_minor,
    refunded_minor = total.refunded_minor + excluded.refunded_minor
"""
COUNT_BUNDLES = """
INSERT INTO bundle_totals AS total (account_id, day, bundle_id, project_id, currency, parts, bundle_orders,
                                    project_orders, grams, offset_cost_minor)
WITH net AS MATERIALIZED (
        SELECT account_id, order_id, day, currency, sum(waiting) AS waiting, sum(allocated) AS allocated
        FROM (SELECT account_id, id AS order_id, (created_at AT TIME ZONE 'UTC')::date AS day,
                     currency::text AS currency, CASE WHEN status IN ('placed', 'paid') THEN 1 ELSE 0 END AS waiting,
                     CASE WHEN status IN ('retiring', 'complete') THEN 1 ELSE 0 END AS allocated
              FROM orders
              UNION ALL
              SELECT account_id, order_id, day, currency,
                     CASE WHEN status IN ('placed', 'paid') THEN -orders ELSE 0 END,
                     CASE WHEN status IN ('retiring', 'complete') THEN -orders ELSE 0 END
              FROM order_deltas) each
        GROUP BY account_id, order_id, day, currency
), fact AS (
        SELECT net.account_id, net.day, line.bundle_id, '' AS project_id, net.currency, net.waiting AS parts,
               net.waiting AS bundle_orders,
               CASE WHEN line.position = 1 THEN net.waiting ELSE 0 END AS project_orders,
               net.waiting * line.quantity_grams AS grams, net.waiting * line.offset_cost_minor AS offset_cost_minor
        FROM net
        JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
        WHERE net.waiting <> 0
        UNION ALL
        SELECT net.account_id, net.day, line.bundle_id, project.project_id, net.currency, net.allocated,
               CASE WHEN project.position = min(project.position) OVER (
                   PARTITION BY net.account_id, net.order_id, net.day, project.line_position)
                    THEN net.allocated ELSE 0 END,
               CASE WHEN project.position = min(project.position) OVER (
                   PARTITION BY net.account_id, net.order_id, net.day, project.project_id)
                    THEN net.allocated ELSE 0 END,
               net.allocated * project.quantity_grams, net.allocated * project.offset_cost_minor
        FROM net
        JOIN order_projects project ON project.account_id = net.account_id AND project.order_id = net.order_id
        JOIN order_lines line ON line.account_id = net.account_id AND line.order_id = net.order_id
         AND line.position = project.line_position
        WHERE net.allocated <> 0
        UNION ALL
        SELECT account_id, day, bundle_id, project_id, currency, -parts, -bundle_orders, -project_orders, -grams,
               -offset_cost_minor
        FROM bundle_totals
)
SELECT account_id, day, bundle_id, project_id, currency, sum(parts), sum(bundle_orders), sum(project_orders),
       sum(grams),
       sum(offset_cost_minor)
FROM fact GROUP BY account_id, day, bundle_id, project_id, currency
HAVING sum(parts) <> 0 OR sum(bundle_orders) <> 0 OR sum(project_orders) <> 0 OR sum(grams) <> 0
    OR sum(offset_cost_minor) <> 0
ON CONFLICT (account_id, day, bundle_id, project_id, currency) DO UPDATE
SET parts = total.parts + excluded.parts, bundle_orders = total.bundle_orders + excluded.bundle_orders,
    project_orders = total.project_orders + excluded.project_orders,
    grams = total.grams + excluded.grams,
    offset_cost_minor = total.offset_cost_minor + excluded.offset_cost_minor
"""


async def count_copied_orders(connection: Connection) -> None:
    for statement in (COUNT_ORDERS, COUNT_ESTIMATES, COUNT_ACCOUNTS, COUNT_BUNDLES):
        await connection.execute(statement)
    await connection.execute("VACUUM ANALYZE order_deltas, order_totals, account_totals, bundle_totals")


# Shares that replaced others are not copied.
_BOOKED = [table for table in TABLES if table not in {"orders", "shares"}]
_ENDED = "SELECT 'orders', id FROM orders WHERE status IN ('complete', 'cancelled', 'failed')"
_OTHERS = (f"SELECT '{table}', id FROM {table}" for table in _BOOKED)
NOTE_COPIES = f"INSERT INTO ledger_due (table_name, source_id) {' UNION ALL '.join([_ENDED, *_OTHERS])}"


async def post_copies(environment: Environment) -> None:
    """Store the entries of all rows, as the worker does after a change."""
    async with environment.connection() as connection:
        await connection.execute("SET statement_timeout = 0")
        await connection.execute(NOTE_COPIES)
        await connection.execute("ANALYZE")
        while True:
            async with connection.transaction():
                if not (rows := await take_due(connection, BATCH_ROWS)):
                    break
                await record_differences(connection, rows, Settings())
        await connection.execute("VACUUM ANALYZE ledger_due, ledger_entries, ledger_postings, ledger_totals")


# In the order in which they happened.
LOG_COPIES = """
INSERT INTO log_statements (mode, kind, subject, at, names)
SELECT mode, kind, subject, at, names
FROM (SELECT mode, 'retirement' AS kind, id AS subject, coalesce(retired_at, opened_at) AS at, NULL AS names
      FROM parcels WHERE status = 'retired'
      UNION ALL
      SELECT mode, 'certificate.issued', number, issued_at, NULL FROM certificates
      UNION ALL
      SELECT mode, 'certificate.' || state, number, state_changed_at, json_build_object('reason', state_reason)::text
      FROM certificates WHERE state <> 'valid') AS event
ORDER BY at, kind = 'retirement' DESC, kind, subject
ON CONFLICT DO NOTHING
"""


async def log_copies(environment: Environment) -> None:
    async with environment.connection() as connection:
        await connection.execute(LOG_COPIES)
