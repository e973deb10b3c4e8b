"""Retire the parcels of a test order without an operator."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, Scope
from tonne.supply.stock.parcels.confirm_retirements import wake_orders_any_account
from tonne.supply.transparency.record_statements import record_retirements

# Open units, too. A unit with room left goes into the service's name, as when it is closed.
RETIRE_PARCELS = """
WITH own AS (
    SELECT parcel.mode, parcel.id FROM shares share
    JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
    WHERE share.account_id = $1 AND share.order_id = $2 AND share.mode = 'test'
      AND parcel.status IN ('open', 'to_retire')
    ORDER BY parcel.id FOR UPDATE OF parcel
)
UPDATE parcels SET status = 'retired', close_at = NULL, retired_on = $3, retired_at = $4,
    account_id = CASE WHEN allocated_grams < quantity_grams THEN NULL ELSE account_id END,
    in_service_name = in_service_name OR allocated_grams < quantity_grams,
    closed_at = CASE WHEN allocated_grams < quantity_grams THEN coalesce(closed_at, $4) ELSE closed_at END,
    beneficiary = CASE WHEN allocated_grams < quantity_grams THEN $5 ELSE beneficiary END
FROM own WHERE parcels.mode = own.mode AND parcels.id = own.id
RETURNING parcels.id
"""


async def retire_test_parcels(tx: Connection, scope: Scope, order_id: str, *, service_name: str, now: datetime) -> None:
    """Retire the order's parcels now, and wake all orders that share them."""
    rows = await tx.fetch(RETIRE_PARCELS, scope.account_id, order_id, now.date(), now, service_name)
    retired = [row["id"] for row in rows]
    await record_retirements(tx, Mode.TEST, dict.fromkeys(retired, now))
    await wake_orders_any_account(tx, Mode.TEST, retired, now)
