"""SQL of importing confirmations."""

from collections.abc import Collection

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.selling.orders.queue import lock_orders
from tonne.supply.stock.parcels.confirm_retirements import find_orders_any_account

FIND_CERTIFIED = """
SELECT share.parcel_id, min(certificate.number) AS number
FROM shares share JOIN certificates certificate
  ON certificate.account_id = share.account_id AND certificate.order_id = share.order_id
WHERE share.mode = $1 AND share.parcel_id = ANY ($2::text[]) GROUP BY share.parcel_id
"""


async def find_certified_any_account(tx: Connection, mode: Mode, parcel_ids: Collection[str]) -> dict[str, str]:
    """The number of a certificate that states the parcel, by parcel, for those that are on one.

    Locks their orders first: a worker that is completing one of them has read the parcel as it was.
    """
    if not parcel_ids:
        return {}
    await lock_orders(tx, await find_orders_any_account(tx, mode, list(parcel_ids)))
    return {row["parcel_id"]: row["number"] for row in await tx.fetch(FIND_CERTIFIED, mode, list(parcel_ids))}
