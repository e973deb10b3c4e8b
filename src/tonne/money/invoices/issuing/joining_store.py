"""SQL of orders that were fulfilled first, and join their collection when their client can no longer cancel them."""

from collections.abc import Sequence
from datetime import datetime

from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import OrderKey

LIST_TO_JOIN = """
SELECT account_id, order_id FROM unbilled_orders WHERE group_id IS NULL AND joins_at <= $1
  AND ($2::text[] IS NULL OR order_id = ANY ($2)) ORDER BY joins_at, order_id LIMIT $3
"""


async def list_to_join_any_account(
    connection: Connection, now: datetime, limit: int, *, among: Sequence[OrderKey] | None = None
) -> list[OrderKey]:
    """Orders without a group whose wait is over, of all accounts or of a few."""
    ids = None if among is None else [key.id for key in among]
    rows = await connection.fetch(LIST_TO_JOIN, now, ids, limit)
    return [OrderKey(row["account_id"], row["order_id"]) for row in rows]


LIST_WAITING = "SELECT order_id FROM unbilled_orders WHERE account_id = $1 AND group_id IS NULL"


async def list_waiting(connection: Connection, scope: Scope) -> list[OrderKey]:
    """The orders of an account that have no group yet."""
    rows = await connection.fetch(LIST_WAITING, scope.account_id)
    return [OrderKey(scope.account_id, row["order_id"]) for row in rows]


SET_JOINING = """
UPDATE unbilled_orders SET joins_at = $3
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
WHERE unbilled_orders.account_id = keys.account_id AND unbilled_orders.order_id = keys.id AND group_id IS NULL
"""


async def set_joining(tx: Connection, keys: Sequence[OrderKey], at: datetime) -> None:
    """When those of these orders get their group that have none."""
    await tx.execute(SET_JOINING, *columns(keys, "account_id, id"), at)
