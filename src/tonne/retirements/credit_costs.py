"""What the credits of orders cost the seller, for the journal."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from tonne.db.columns import columns
from tonne.db.pool import Connection
from tonne.orders.model import OrderKey


@dataclass(frozen=True, slots=True)
class CreditCost:
    """The cost of an order's credits in one currency: that in which the seller bought the lots."""

    account_id: str
    order_id: str
    currency: str
    cost_minor: int


# The cost of a lot cannot change once grams of it are allocated, so it needs no copy on the order. Rounded once per
# order and currency, half up.
READ_COSTS = """
SELECT share.account_id, share.order_id, lot.cost_currency AS currency,
       round(sum(share.quantity_grams * lot.unit_cost_minor::numeric) / 1000000)::bigint AS cost_minor
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
JOIN shares share ON share.account_id = wanted.account_id AND share.order_id = wanted.id
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
WHERE lot.unit_cost_minor IS NOT NULL
GROUP BY share.account_id, share.order_id, lot.cost_currency
ORDER BY share.account_id, share.order_id, lot.cost_currency
"""


async def read_credit_costs(connection: Connection, keys: Sequence[OrderKey]) -> list[CreditCost]:
    """What the credits that these orders have now cost. Credits of lots without a cost are left out."""
    return _costs(await connection.fetch(READ_COSTS, *columns(keys, "account_id, id")))


READ_REPLACED_COSTS = """
SELECT share.account_id, share.order_id, lot.cost_currency AS currency,
       round(sum(share.quantity_grams * lot.unit_cost_minor::numeric) / 1000000)::bigint AS cost_minor
FROM replaced_shares share
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
WHERE lot.unit_cost_minor IS NOT NULL AND share.mode = 'live' AND share.replaced_at >= $1 AND share.replaced_at < $2
GROUP BY share.account_id, share.order_id, lot.cost_currency
ORDER BY share.account_id, share.order_id, lot.cost_currency
"""


async def read_replaced_costs_any_account(connection: Connection, since: datetime, until: datetime) -> list[CreditCost]:
    """What the credits of invalid lots cost that live orders gave back in this time. The seller has lost it."""
    return _costs(await connection.fetch(READ_REPLACED_COSTS, since, until))


def _costs(rows: Sequence[asyncpg.Record]) -> list[CreditCost]:
    return [CreditCost(**row) for row in rows]
