"""When accounts ordered last."""

from collections.abc import Sequence
from datetime import date

from tonne.platform.db.pool import Connection
from tonne.platform.values.scope import Scope

# The latest order of each account is the end of an index.
LAST_ORDER_DAYS = """
SELECT accounts.id, (newest.created_at AT TIME ZONE 'UTC')::date AS day
FROM accounts CROSS JOIN LATERAL (
    SELECT created_at FROM orders WHERE orders.account_id = accounts.id ORDER BY created_at DESC, id DESC LIMIT 1
) AS newest
WHERE accounts.organisation_id = $1 AND accounts.mode = $2 AND accounts.id = ANY ($3::text[])
"""


async def last_order_days(connection: Connection, scope: Scope, account_ids: Sequence[str]) -> dict[str, date]:
    """Of accounts of the organisation and mode, by their ids. Accounts without an order are missing."""
    rows = await connection.fetch(LAST_ORDER_DAYS, scope.organisation_id, scope.mode, list(account_ids))
    return {row["id"]: row["day"] for row in rows}
