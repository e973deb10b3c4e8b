"""The orders behind parcels, for the retirement desk."""

from collections.abc import Sequence

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode

# Orders of the lines on one page.
MAX_ORDERS = 500


class ParcelOrder(Struct, frozen=True):
    parcel_id: str
    order_id: str
    organisation_name: str
    status: str
    certificate_number: str | None


LIST_PARCEL_ORDERS = """
SELECT DISTINCT share.parcel_id, share.order_id, organisations.name AS organisation_name, orders.status,
       certificate.number AS certificate_number
FROM shares share
JOIN orders ON orders.account_id = share.account_id AND orders.id = share.order_id
JOIN organisations ON organisations.id = share.organisation_id
LEFT JOIN certificates certificate ON certificate.account_id = share.account_id
                                  AND certificate.order_id = share.order_id AND certificate.state = 'valid'
WHERE share.mode = $1 AND share.parcel_id = ANY ($2::text[])
ORDER BY share.parcel_id, share.order_id LIMIT $3
"""


async def list_parcel_orders_any_account(
    connection: Connection, mode: Mode, parcel_ids: Sequence[str]
) -> list[ParcelOrder]:
    """At most MAX_ORDERS."""
    rows = await connection.fetch(LIST_PARCEL_ORDERS, mode, list(parcel_ids), MAX_ORDERS)
    return [ParcelOrder(**row) for row in rows]


FIND_UNIT_MODE = "SELECT true FROM parcels WHERE mode = $1 AND id = $2 AND status = 'open'"


async def is_open_unit_any_account(connection: Connection, mode: Mode, unit_id: str) -> bool:
    return await connection.fetchval(FIND_UNIT_MODE, mode, unit_id) is True
