"""SQL of invalidating a lot."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Actor
from tonne.selling.orders.model import OrderKey
from tonne.supply.stock.lots.lot_store import ListedLot

# Sorted, so that two transactions cannot deadlock. Waits for confirmations and allocations that have locked one.
LOCK_PARCELS_OF_LOT = "SELECT true FROM parcels WHERE mode = $1 AND lot_id = $2 ORDER BY id FOR UPDATE"


async def lock_parcels_of_lot_any_account(tx: Connection, lot: ListedLot) -> None:
    await tx.execute(LOCK_PARCELS_OF_LOT, lot.mode, lot.id)


FIND_HELD = """
SELECT share.account_id, share.order_id, sum(share.quantity_grams)::bigint AS grams
FROM parcels parcel JOIN shares share ON share.mode = parcel.mode AND share.parcel_id = parcel.id
WHERE parcel.mode = $1 AND parcel.lot_id = $2 GROUP BY share.account_id, share.order_id
ORDER BY share.account_id, share.order_id
"""


async def find_held_any_account(tx: Connection, lot: ListedLot) -> dict[OrderKey, int]:
    """The grams that each order holds of the lot."""
    rows = await tx.fetch(FIND_HELD, lot.mode, lot.id)
    return {OrderKey(row["account_id"], row["order_id"]): row["grams"] for row in rows}


# The whole lot counts as allocated: every query for free grams then leaves it out.
MARK_LOT = """
UPDATE lots SET invalidated_at = $3, invalidated_by = $4, invalid_reason = $5,
                invalid_grams = quantity_grams - allocated_grams, allocated_grams = quantity_grams
WHERE mode = $1 AND id = $2
"""
MARK_PARCELS = """
UPDATE parcels SET invalidated_at = $3, close_at = NULL,
                   status = CASE WHEN status = 'retired' THEN 'retired' ELSE 'invalid' END
WHERE mode = $1 AND lot_id = $2
"""


async def mark_invalid(tx: Connection, lot: ListedLot, *, reason: str, actor: Actor, now: datetime) -> None:
    await tx.execute(MARK_LOT, lot.mode, lot.id, now, str(actor), reason)
    await tx.execute(MARK_PARCELS, lot.mode, lot.id, now)
