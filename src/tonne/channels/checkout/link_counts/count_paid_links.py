"""Counts what was paid through offset links, in the transaction in which the orders are paid."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tonne.platform.db.database import Connection, columns
from tonne.selling.orders.model import Order

INSERT_PAID = """
INSERT INTO offset_link_deltas (organisation_id, mode, account_id, offset_link_id, day, paid, paid_grams, paid_minor)
SELECT organisation_id, mode, account_id, offset_link_id, $1, 1, grams, cost_minor + tax_minor
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[])
     AS paid (organisation_id, mode, account_id, offset_link_id, grams, cost_minor, tax_minor)
"""


async def count_paid_links(tx: Connection, orders: Sequence[Order], now: datetime) -> None:
    """Those of the orders that were placed through a link. They are paid now."""
    linked = [order for order in orders if order.offset_link_id is not None and order.priced is not None]
    if linked:
        links = columns(linked, "scope.organisation_id, scope.mode, scope.account_id, offset_link_id")
        amounts = columns(linked, "priced.quantity_grams, priced.total_cost_minor")
        taxes = [order.tax.tax_minor or 0 for order in linked]
        await tx.execute(INSERT_PAID, now.astimezone(UTC).date(), *links, *amounts, taxes)
