"""SQL for checkouts that the API created. Only these have a sealed token and an idempotency key."""

import asyncpg
import msgspec

from tonne.channels.checkout.model import Checkout
from tonne.channels.checkout.store import COLUMNS, checkout_of
from tonne.platform.db.database import Connection, value_of
from tonne.platform.values.context import Scope
from tonne.platform.values.paging import Position
from tonne.selling.orders.model import OrderStatus


class ApiCheckout(msgspec.Struct, frozen=True):
    """`sealed_token` is the token of the checkout's address. `order_status` is None if there is no order yet."""

    checkout: Checkout
    sealed_token: bytes
    idempotency_key: str
    order_status: OrderStatus | None


_COLUMNS = f"""{COLUMNS}, token_box, idempotency_key, request_digest, (
    SELECT orders.status FROM orders WHERE orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
) AS order_status"""  # noqa: S608 - columns of all checkouts
FIND_BY_KEY = f"""
SELECT {_COLUMNS} FROM checkouts
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND idempotency_key = $4
"""  # noqa: S608 - columns above


async def find_by_key(connection: Connection, scope: Scope, key: str) -> tuple[ApiCheckout, bytes] | None:
    """The checkout with this idempotency key, and the digest of the request that created it."""
    row = await connection.fetchrow(FIND_BY_KEY, scope.organisation_id, scope.mode, scope.account_id, key)
    return None if row is None else (_api_checkout(row), row["request_digest"])


FIND_BY_ID = f"""
SELECT {_COLUMNS} FROM checkouts
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND id = $4 AND token_box IS NOT NULL
"""  # noqa: S608 - columns above


async def find_by_id(connection: Connection, scope: Scope, checkout_id: str) -> ApiCheckout | None:
    row = await connection.fetchrow(FIND_BY_ID, scope.organisation_id, scope.mode, scope.account_id, checkout_id)
    return None if row is None else _api_checkout(row)


LIST_CHECKOUTS = f"""
SELECT {_COLUMNS} FROM checkouts
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3
  AND token_box IS NOT NULL AND (created_at, id) < ($4, $5)
ORDER BY created_at DESC, id DESC LIMIT $6
"""  # noqa: S608 - columns above


async def list_checkouts(connection: Connection, scope: Scope, start: Position, limit: int) -> list[ApiCheckout]:
    rows = await connection.fetch(
        LIST_CHECKOUTS, scope.organisation_id, scope.mode, scope.account_id, start.created_at, start.id, limit
    )
    return [_api_checkout(row) for row in rows]


def _api_checkout(row: asyncpg.Record) -> ApiCheckout:
    return value_of(ApiCheckout, row, checkout=checkout_of(row), sealed_token=row["token_box"])
