"""The checkout at which an order was placed."""

from tonne.base.scope import Scope
from tonne.base.timeline import TimelineEntry
from tonne.db.pool import Connection

FIND_CHECKOUT_OF_ORDER = """
SELECT id, status, created_at, expires_at, email FROM checkouts WHERE account_id = $1 AND order_id = $2
"""


async def checkout_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    row = await connection.fetchrow(FIND_CHECKOUT_OF_ORDER, scope.account_id, order_id)
    if row is None:
        return []
    text = f"opened for {row['email'] or 'an erased address'}, expires at {row['expires_at']:%Y-%m-%d %H:%M}"
    return [TimelineEntry(at=row["created_at"], kind="checkout", text=text, subject_id=row["id"])]
