"""Enforces spending limits: orders of a calendar month (UTC), of an account or an API key.

An order counts with what is to be paid for it, when it is placed; one that waits for a price counts when it is priced,
even if that exceeds the limit. Cancelled and failed orders do not count. Neither do orders that customers pay at
checkout. Orders of one subject with a limit are placed one after the other: a transaction locks the row that counts
them until it commits. Others are not affected.
"""

from collections.abc import Sequence
from datetime import date, datetime

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import to_wire
from tonne.platform.values.spending_limit import SpendingLimit, month_of, next_month
from tonne.selling.orders.errors import SpendingLimitReached
from tonne.selling.orders.model import Order


async def count_spending(
    tx: Connection, order: Order, limits: Sequence[SpendingLimit], *, is_refusing: bool = True
) -> None:
    """Count an order that this transaction has just inserted or priced. Raises if it exceeds one of the limits.

    `limits` are in a fixed order, so that two transactions cannot deadlock.
    """
    if order.priced is None or order.is_paid_at_checkout:
        return
    amount = order.priced.total_cost_minor if order.amount_due_minor is None else order.amount_due_minor
    month = month_of(order.created_at)
    for limit in limits:
        if limit.currency != order.currency:
            if is_refusing:
                raise SpendingLimitReached(
                    f"The {limit.named} has a monthly limit in {limit.currency}, so it cannot order in "
                    f"{order.currency}. Use a key without a limit."
                )
            continue
        spent = await _add(tx, order, limit, month, amount)
        if spent > limit.limit_minor:
            # Some of the orders may have been cancelled since they were counted.
            spent = await _recount(tx, order, limit, month)
        if spent > limit.limit_minor and is_refusing:
            raise _reached(limit, month, spent - amount, amount)


def _reached(limit: SpendingLimit, month: date, spent_minor: int, amount_minor: int) -> SpendingLimitReached:
    def money(minor: int) -> str:
        return f"{format_money(minor, limit.currency)} {limit.currency}"

    return SpendingLimitReached(
        f"The {limit.named} may order for {money(limit.limit_minor)} per calendar month (UTC). {money(spent_minor)} "
        f"are spent in {month:%Y-%m}, and this order of {money(amount_minor)} would exceed the limit. It resets at "
        f"{to_wire(next_month(month))}."
    )


ADD_SPENDING = """
UPDATE monthly_spending SET spent_minor = spent_minor + $3 WHERE subject_id = $1 AND month = $2 RETURNING spent_minor
"""


async def _add(tx: Connection, order: Order, limit: SpendingLimit, month: date, amount_minor: int) -> int:
    spent: int | None = await tx.fetchval(ADD_SPENDING, limit.subject_id, month, amount_minor)
    return await _begin(tx, order, limit, month, amount_minor) if spent is None else spent


# Another transaction may insert the row meanwhile: then this order is added to it.
BEGIN_SPENDING = """
INSERT INTO monthly_spending (subject_id, month, spent_minor) VALUES ($1, $2, $3)
ON CONFLICT (subject_id, month) DO UPDATE SET spent_minor = monthly_spending.spent_minor + $4 RETURNING spent_minor
"""


async def _begin(tx: Connection, order: Order, limit: SpendingLimit, month: date, amount_minor: int) -> int:
    """The first order of the month since the limit was set."""
    so_far = await sum_spending(tx, order.scope.organisation_id, limit.subject_id, month)
    spent: int = await tx.fetchval(BEGIN_SPENDING, limit.subject_id, month, so_far, amount_minor)
    return spent


SET_SPENDING = "UPDATE monthly_spending SET spent_minor = $3 WHERE subject_id = $1 AND month = $2"


async def _recount(tx: Connection, order: Order, limit: SpendingLimit, month: date) -> int:
    """The caller has the row's lock, so this sees all orders that were counted."""
    spent = await sum_spending(tx, order.scope.organisation_id, limit.subject_id, month)
    await tx.execute(SET_SPENDING, limit.subject_id, month, spent)
    return spent


SUM_SPENDING = """
SELECT coalesce(sum(orders.total_cost_minor + coalesce(orders.tax_minor, 0)), 0)::bigint
FROM accounts JOIN orders ON orders.account_id = accounts.id
WHERE accounts.organisation_id = $1 AND (accounts.id = $2 OR orders.placed_by_key IN (
      SELECT id FROM api_keys WHERE organisation_id = $1 AND coalesce(limit_key_id, id) = $2))
  AND (NOT starts_with($2, 'acc_') OR accounts.id = $2)
  AND orders.created_at >= $3 AND orders.created_at < $4 AND orders.status NOT IN ('cancelled', 'failed')
  AND orders.offset_link_id IS NULL AND orders.total_cost_minor IS NOT NULL
"""


async def sum_spending(connection: Connection, organisation_id: str, subject_id: str, month: date) -> int:
    """What an account, or an API key of the organisation and the keys of its rotations, has ordered in a month."""
    start = datetime.fromisoformat(f"{month.isoformat()}T00:00:00+00:00")
    spent: int = await connection.fetchval(SUM_SPENDING, organisation_id, subject_id, start, next_month(month))
    return spent


FORGET_SPENDING = "DELETE FROM monthly_spending WHERE subject_id = $1"


async def forget_spending(tx: Connection, subject_id: str) -> None:
    """After a change of the limit: orders placed without a limit were not counted."""
    await tx.execute(FORGET_SPENDING, subject_id)
