"""SQL of paid orders that wait until they are fulfilled: the end of the wait, and what is taken off them meanwhile."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, columns, parameters_of
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import Order
from tonne.selling.orders.schemas import order_document
from tonne.selling.orders.store import LINE_COLUMNS
from tonne.selling.orders.totals.bundle_totals import count_lines, lock_pending

STORE_WINDOW = """
UPDATE orders SET fulfil_after = $3, fulfil_manually = $4, wire_document = $5, next_attempt_at = $6
WHERE account_id = $1 AND id = $2
"""


async def store_window(tx: Connection, order: Order, *, next_attempt_at: datetime | None) -> None:
    """Until when a locked order waits. Call `note_rewritten` as well."""
    values = parameters_of(order, "scope.account_id, id, fulfil_after, fulfil_manually")
    await tx.execute(STORE_WINDOW, *values, order_document(order), next_attempt_at)


class Reduction(Struct, frozen=True, kw_only=True):
    """What was taken off a paid order. `tax_minor` is None if it waits for a consolidated invoice."""

    scope: Scope
    id: str
    order_id: str
    before_grams: int
    after_grams: int
    net_minor: int
    tax_minor: int | None
    was_billed: bool
    was_paid: bool
    refund_id: str | None
    actor: str
    created_at: datetime

    @property
    def total_minor(self) -> int:
        return self.net_minor + (self.tax_minor or 0)


_REDUCTION = """id, order_id, before_grams, after_grams, net_minor, tax_minor, was_billed, was_paid, refund_id, actor, \
created_at"""
INSERT_REDUCTION = f"""
INSERT INTO order_reductions (account_id, organisation_id, mode, {_REDUCTION})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
"""  # noqa: S608 - columns above
STORE_REDUCED = """
UPDATE orders SET quantity_grams = $3, offset_cost_minor = $4, commission_minor = $5, total_cost_minor = $6,
                  billing_adjustment_minor = $7, tax_minor = $8, refunded_minor = $9, wire_document = $10
WHERE account_id = $1 AND id = $2
"""
DELETE_LINES = "DELETE FROM order_lines WHERE account_id = $1 AND order_id = $2"
INSERT_LINES = f"""
INSERT INTO order_lines (account_id, order_id, {LINE_COLUMNS}, position)
SELECT $1, $2, line.* FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
                                  $9::bigint[], $10::boolean[]) WITH ORDINALITY AS line
"""  # noqa: S608 - a constant


async def store_reduction(tx: Connection, order: Order, reduction: Reduction) -> None:
    """Write a locked order that was reduced, with its lines. Call `note_rewritten` as well."""
    scope, key = order.scope, (order.scope.account_id, order.id)
    await tx.execute(
        INSERT_REDUCTION, scope.account_id, scope.organisation_id, scope.mode, *parameters_of(reduction, _REDUCTION)
    )
    await lock_pending(tx, order)
    await count_lines(tx, order, times=-1)
    await tx.execute(DELETE_LINES, *key)
    await tx.execute(INSERT_LINES, *key, *columns(order.lines, LINE_COLUMNS))
    names = "priced.quantity_grams, priced.offset_cost_minor, priced.commission_minor, priced.total_cost_minor, "
    amounts = parameters_of(order, f"{names}billing_adjustment_minor, tax.tax_minor, refunded_minor")
    await tx.execute(STORE_REDUCED, *key, *amounts, order_document(order))
    await count_lines(tx, order, times=1)


SUM_REDUCED = """
SELECT coalesce(sum(net_minor + coalesce(tax_minor, 0)), 0)::bigint FROM order_reductions
WHERE order_id = $2 AND account_id = $1 AND was_paid
"""


async def sum_paid_reductions(connection: Connection, order: Order) -> int:
    """What was taken off an order after it was paid."""
    return int(await connection.fetchval(SUM_REDUCED, order.scope.account_id, order.id))


# What was taken off each order, for the statements of invariants.
REDUCED = """(
    SELECT account_id, order_id, sum(before_grams - after_grams)::bigint AS grams,
           coalesce(sum(net_minor) FILTER (WHERE was_billed), 0)::bigint AS billed_net_minor,
           coalesce(sum(tax_minor) FILTER (WHERE was_billed), 0)::bigint AS billed_tax_minor,
           coalesce(sum(net_minor + coalesce(tax_minor, 0)) FILTER (WHERE was_paid), 0)::bigint AS paid_minor
    FROM order_reductions GROUP BY account_id, order_id)"""
