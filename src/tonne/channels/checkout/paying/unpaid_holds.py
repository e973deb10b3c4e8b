"""Finds supply that is held for checkouts whose customers are not paying any more."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.supply.stock.holds.hold_store import HeldUntil

# A pending charge may still be captured, even if its page has expired here: the gateway decides.
FIND_UNPAID = """
SELECT DISTINCT hold.account_id, hold.checkout_id, hold.expires_at
FROM supply_holds hold
JOIN orders ON orders.account_id = hold.account_id AND orders.id = hold.order_id
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(charges.status = 'pending'), false) AS is_pending,
           coalesce(bool_or(charges.status = 'failed' AND charges.attempt > hold.charges_before), false) AS has_failed
    FROM charges WHERE charges.account_id = orders.account_id AND charges.order_id = orders.id
) charged
WHERE orders.status IN ('received', 'placed') AND NOT charged.is_pending
  AND (charged.has_failed OR hold.expires_at <= $1)
"""


async def find_unpaid_holds_any_account(connection: Connection, now: datetime) -> list[HeldUntil]:
    """Those whose last payment was declined, and those that expired without an open charge."""
    return [HeldUntil(**row) for row in await connection.fetch(FIND_UNPAID, now)]
