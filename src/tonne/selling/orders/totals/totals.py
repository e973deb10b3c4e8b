"""Sums of an organisation's orders by month, currency and status, without reading the orders.

Triggers append a row to `order_deltas` for every change of an order, in the same transaction. A job moves them to
`order_totals`, and a trigger adds them to `account_totals`, `bundle_totals` and `metadata_totals`. Totals and deltas
are always read together.
"""

from datetime import date
from typing import NamedTuple

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Tenant
from tonne.selling.orders.model import OrderStatus

OPEN = (OrderStatus.RECEIVED, OrderStatus.PLACED, OrderStatus.PAID, OrderStatus.RETIRING)
# Orders that were not cancelled and did not fail.
BOUGHT = (*OPEN, OrderStatus.COMPLETE)


class OrderTotal(NamedTuple):
    """`spend_minor` is the total cost with the tax that is known so far, less refunds."""

    month: date
    currency: str
    status: OrderStatus
    orders: int
    grams: int
    spend_minor: int


LIST_TOTALS = """
SELECT month, currency, status, sum(orders)::bigint AS orders, sum(grams)::bigint AS grams,
       sum(cost_minor + tax_minor - refunded_minor)::bigint AS spend_minor
FROM (SELECT month, currency, status, orders, grams, cost_minor, tax_minor, refunded_minor FROM order_totals
      WHERE organisation_id = $1 AND mode = $2
      UNION ALL
      SELECT month, currency, status, orders, grams, cost_minor, tax_minor, refunded_minor FROM order_deltas
      WHERE organisation_id = $1 AND mode = $2) counted
WHERE month >= $3 OR status = ANY ($4)
GROUP BY month, currency, status HAVING sum(orders) <> 0
ORDER BY month, currency, status
"""


async def list_totals(connection: Connection, tenant: Tenant, since: date) -> list[OrderTotal]:
    """All orders created in the month of `since` or later, and the open ones of any time."""
    rows = await connection.fetch(LIST_TOTALS, *tenant, since, list(OPEN))
    return [
        OrderTotal(
            row["month"], row["currency"], OrderStatus(row["status"]), row["orders"], row["grams"], row["spend_minor"]
        )
        for row in rows
    ]
