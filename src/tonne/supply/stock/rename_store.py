"""SQL of correcting the name of an order whose credits are allocated, but not retired."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, value_of
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import Order
from tonne.supply.stock.model import ParcelStatus


class ParcelOfOrder(Struct, frozen=True):
    """`is_shared` if other orders have a share of it, too."""

    id: str
    status: ParcelStatus
    in_service_name: bool
    is_shared: bool


# Parcels before orders, as everything that retires credits does. Not those of complete orders: their names stay.
LOCK_PARCELS = """
SELECT parcel.id FROM parcels parcel
WHERE (parcel.mode, parcel.id) IN (
    SELECT share.mode, share.parcel_id FROM shares share
    JOIN orders ON orders.account_id = share.account_id AND orders.id = share.order_id
    WHERE share.account_id = $1 AND share.order_id = $2 AND orders.status = 'retiring')
ORDER BY parcel.id FOR UPDATE OF parcel
"""
# A statement of its own: the first one may have waited, and does not see what others wrote meanwhile.
READ_PARCELS = """
SELECT parcel.id, parcel.status, parcel.in_service_name,
       EXISTS (SELECT FROM shares other WHERE other.mode = parcel.mode AND other.parcel_id = parcel.id
               AND (other.account_id, other.order_id) <> ($2, $3)) AS is_shared
FROM parcels parcel WHERE parcel.mode = $1 AND parcel.id = ANY ($4::text[])
"""


async def lock_parcels_of_order(tx: Connection, scope: Scope, order_id: str) -> list[ParcelOfOrder]:
    """The parcels of a retiring order; none of any other order."""
    ids = [row["id"] for row in await tx.fetch(LOCK_PARCELS, scope.account_id, order_id)]
    rows = await tx.fetch(READ_PARCELS, scope.mode, scope.account_id, order_id, ids)
    return [value_of(ParcelOfOrder, row) for row in rows]


FIND_PARCEL_IDS = "SELECT DISTINCT parcel_id FROM shares WHERE account_id = $1 AND order_id = $2"


async def find_parcel_ids(tx: Connection, scope: Scope, order_id: str) -> set[str]:
    return {row["parcel_id"] for row in await tx.fetch(FIND_PARCEL_IDS, scope.account_id, order_id)}


RENAME_PARCELS = "UPDATE parcels SET beneficiary = $3 WHERE mode = $1 AND id = ANY ($2::text[])"
# As when a unit is closed: it is retired in the service's name, on behalf of several beneficiaries.
MOVE_TO_SERVICE = """
UPDATE parcels SET account_id = NULL, in_service_name = true, beneficiary = $3, status = 'to_retire', close_at = NULL,
                   closed_at = $4
WHERE mode = $1 AND id = ANY ($2::text[]) AND status IN ('open', 'to_retire')
"""
RENAME_SHARES = "UPDATE shares SET beneficiary = $3 WHERE account_id = $1 AND order_id = $2"


async def rename_parcels(
    tx: Connection, order: Order, parcels: list[ParcelOfOrder], *, name: str, service_name: str, now: datetime
) -> None:
    """Give the order's share of these locked, unretired parcels another name at the registry.

    Parcels of this order alone get the name. A unit that it shares with other orders of the account cannot be divided:
    it goes into the service's name.
    """
    mode = order.scope.mode
    own = [parcel.id for parcel in parcels if not parcel.is_shared and not parcel.in_service_name]
    shared = [parcel.id for parcel in parcels if parcel.is_shared and not parcel.in_service_name]
    await tx.execute(RENAME_PARCELS, mode, own, name)
    await tx.execute(MOVE_TO_SERVICE, mode, shared, service_name, now)
    await tx.execute(RENAME_SHARES, order.scope.account_id, order.id, name)
