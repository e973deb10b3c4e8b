"""Finds the account of an order that a person names by its id alone."""

from datetime import timedelta

from tonne.platform.db.database import Connection, optional, scope_of
from tonne.platform.values.context import Mode, Scope, made_at

_NEAR = timedelta(seconds=2)

# Nearly all orders are received in the second in which their id is made, which the id says.
FIND_SCOPE_BY_TIME = """
SELECT organisation_id, account_id, mode FROM orders
WHERE mode IN ('live', 'test') AND created_at >= $2 AND created_at < $3 AND id = $1
"""


async def find_scope_any_account(connection: Connection, order_id: str) -> Scope | None:
    """The scope of an order that an operator names by its id."""
    at = made_at(order_id)
    if at is not None:
        row = await connection.fetchrow(FIND_SCOPE_BY_TIME, order_id, at - _NEAR, at + _NEAR)
        if row is not None:
            return scope_of(row)
    return await _find_scope_by_probing_any_account(connection, order_id)


# Probes the primary key once per account: there is no index on the id alone.
FIND_SCOPE = """
SELECT orders.organisation_id, orders.account_id, orders.mode
FROM accounts JOIN orders ON orders.account_id = accounts.id AND orders.id = $1
"""


async def _find_scope_by_probing_any_account(connection: Connection, order_id: str) -> Scope | None:
    return optional(scope_of, await connection.fetchrow(FIND_SCOPE, order_id))


FIND_SCOPE_IN_ORGANISATION = """
SELECT orders.account_id FROM accounts JOIN orders ON orders.account_id = accounts.id AND orders.id = $3
WHERE accounts.organisation_id = $1 AND accounts.mode = $2
"""


async def find_scope(connection: Connection, organisation_id: str, mode: Mode, order_id: str) -> Scope | None:
    """The account of an order that a member of the organisation names by its id."""
    account_id = await connection.fetchval(FIND_SCOPE_IN_ORGANISATION, organisation_id, mode, order_id)
    return None if account_id is None else Scope(organisation_id, account_id, mode)
