"""Lists the orders that hold credits of a lot, and what became of those of an invalid lot."""

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.supply.stock.lots.lot_store import ListedLot


class LotHolder(Struct, frozen=True):
    """`case_state` is set if the lot is invalid. An order that has got other credits holds 0 g."""

    order_id: str
    account_id: str
    organisation_id: str
    order_status: str
    beneficiary: str
    quantity_grams: int
    retired_grams: int
    certificate_number: str | None
    certificate_state: str | None
    case_state: str | None


# The certificate of a case is the one that stated the lot, even if another one is current now.
LIST_HOLDERS = """
SELECT orders.id AS order_id, orders.account_id, orders.organisation_id, orders.status AS order_status,
       coalesce(orders.beneficiary, accounts.beneficiary) AS beneficiary,
       coalesce(held.grams, 0)::bigint AS quantity_grams, coalesce(held.retired, 0)::bigint AS retired_grams,
       certificate.number AS certificate_number, certificate.state AS certificate_state, lot_case.state AS case_state
FROM (SELECT parcel.mode, parcel.lot_id, share.account_id, share.order_id, sum(share.quantity_grams) AS grams,
             sum(share.quantity_grams) FILTER (WHERE parcel.status = 'retired') AS retired
      FROM parcels parcel JOIN shares share ON share.mode = parcel.mode AND share.parcel_id = parcel.id
      WHERE parcel.mode = $1 AND parcel.lot_id = $2
      GROUP BY parcel.mode, parcel.lot_id, share.account_id, share.order_id) held
FULL JOIN (SELECT mode, lot_id, account_id, order_id, certificate_number, state FROM lot_cases
           WHERE mode = $1 AND lot_id = $2) lot_case USING (mode, lot_id, account_id, order_id)
JOIN orders ON orders.account_id = coalesce(held.account_id, lot_case.account_id)
           AND orders.id = coalesce(held.order_id, lot_case.order_id)
JOIN accounts ON accounts.organisation_id = orders.organisation_id AND accounts.id = orders.account_id
LEFT JOIN certificates certificate
       ON certificate.account_id = orders.account_id AND certificate.order_id = orders.id
      AND CASE WHEN lot_case.certificate_number IS NULL THEN certificate.state <> 'replaced'
               ELSE certificate.number = lot_case.certificate_number END
ORDER BY orders.created_at, orders.id
"""


async def list_holders_any_account(connection: Connection, lot: ListedLot) -> list[LotHolder]:
    """Oldest order first."""
    return [LotHolder(**row) for row in await connection.fetch(LIST_HOLDERS, lot.mode, lot.id)]
