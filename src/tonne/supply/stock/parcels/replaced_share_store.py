"""SQL of the shares of an invalid lot, which other credits replace."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.selling.orders.model import Order


class LostShare(Struct, frozen=True):
    """Grams of an invalid lot that a line of the order holds. `is_asked`: a registry may be retiring them."""

    line_position: int
    parcel_id: str
    project_id: str
    quantity_grams: int
    is_asked: bool


FIND_LOST = """
SELECT share.line_position, share.parcel_id, parcel.project_id, share.quantity_grams,
       parcel.status = 'to_retire' AS is_asked
FROM shares share JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
WHERE share.account_id = $1 AND share.order_id = $2 AND parcel.lot_id = $3
ORDER BY share.line_position, parcel.start_grams
"""


async def find_lost(tx: Connection, order: Order, lot_id: str) -> list[LostShare]:
    rows = await tx.fetch(FIND_LOST, order.scope.account_id, order.id, lot_id)
    return [LostShare(**row) for row in rows]


KEEP_RECORD = """
INSERT INTO replaced_shares (account_id, order_id, line_position, mode, parcel_id, organisation_id, beneficiary,
                             quantity_grams, replaced_at)
SELECT share.account_id, share.order_id, share.line_position, share.mode, share.parcel_id, share.organisation_id,
       share.beneficiary, share.quantity_grams, $4
FROM shares share JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
WHERE share.account_id = $1 AND share.order_id = $2 AND parcel.lot_id = $3
"""
RETURN_GRAMS = """
UPDATE parcels SET allocated_grams = parcels.allocated_grams - lost.grams
FROM (SELECT share.mode, share.parcel_id, sum(share.quantity_grams) AS grams
      FROM shares share JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
      WHERE share.account_id = $1 AND share.order_id = $2 AND parcel.lot_id = $3
      GROUP BY share.mode, share.parcel_id) lost
WHERE parcels.mode = lost.mode AND parcels.id = lost.parcel_id
"""
DELETE_LOST = """
DELETE FROM shares USING parcels parcel
WHERE shares.account_id = $1 AND shares.order_id = $2 AND parcel.mode = shares.mode AND parcel.id = shares.parcel_id
  AND parcel.lot_id = $3
"""


async def release_lost(tx: Connection, order: Order, lot_id: str, now: datetime) -> None:
    """Take the order's shares of an invalid lot away, and keep a record of them."""
    held = (order.scope.account_id, order.id, lot_id)
    await tx.execute(KEEP_RECORD, *held, now)
    await tx.execute(RETURN_GRAMS, *held)
    await tx.execute(DELETE_LOST, *held)
