"""SQL of allocation: locks lots and units, and writes parcels and shares. Also of correcting the name of an order."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, columns, value_of
from tonne.platform.values.context import Mode, Scope
from tonne.selling.orders.model import Order, OrderKey
from tonne.supply.stock.lots.registry_name import registry_beneficiary
from tonne.supply.stock.model import Lot, Parcel, ParcelStatus, Share
from tonne.supply.transparency.record_statements import record_retirements

# Sorted to prevent deadlocks between workers.
LOCK_LOTS = """
SELECT id, project_id, vintage, status, quantity_grams, allocated_grams, retired_on, retirement_url FROM lots
WHERE mode = $1 AND project_id = ANY ($2::text[]) AND allocated_grams < quantity_grams AND paused_at IS NULL
ORDER BY id FOR UPDATE
"""


async def lock_lots(tx: Connection, mode: Mode, project_ids: Iterable[str]) -> list[Lot]:
    rows = await tx.fetch(LOCK_LOTS, mode, list(project_ids))
    return [value_of(Lot, row) for row in rows]


# The fields of Parcel.
_PARCEL = """id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, account_id, beneficiary, status, \
close_at, retired_on, retirement_url"""
LOCK_UNITS = f"""
SELECT {_PARCEL} FROM parcels
WHERE mode = $1 AND project_id = ANY ($2::text[]) AND allocated_grams < quantity_grams
  AND (account_id IS NULL OR account_id = ANY ($3::text[])) AND invalidated_at IS NULL
  AND NOT EXISTS (SELECT FROM lots WHERE lots.mode = parcels.mode AND lots.id = parcels.lot_id
                    AND lots.paused_at IS NOT NULL)
ORDER BY id FOR UPDATE
"""  # noqa: S608 - a constant


async def lock_units_any_account(
    tx: Connection, mode: Mode, project_ids: Iterable[str], account_ids: Iterable[str]
) -> list[Parcel]:
    """Units with free grams: those in the service's name, and the open ones of these accounts."""
    rows = await tx.fetch(LOCK_UNITS, mode, list(project_ids), list(account_ids))
    return [value_of(Parcel, row) for row in rows]


ADVANCE_LOTS = """
UPDATE lots SET allocated_grams = taken.allocated_grams
FROM unnest($2::text[], $3::bigint[]) AS taken (id, allocated_grams) WHERE lots.mode = $1 AND lots.id = taken.id
"""


async def advance_lots(tx: Connection, mode: Mode, lots: Sequence[Lot]) -> None:
    await tx.execute(ADVANCE_LOTS, mode, *columns(lots, "id, allocated_grams"))


INSERT_PARCELS = f"""
INSERT INTO parcels (mode, {_PARCEL}, in_service_name, opened_at, retired_at, closed_at)
SELECT $1, {_PARCEL}, account_id IS NULL, $2::timestamptz, CASE WHEN status = 'retired' THEN $2::timestamptz END,
       CASE WHEN account_id IS NULL THEN $2::timestamptz END
FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[],
            $11::text[], $12::timestamptz[], $13::date[], $14::text[]) AS new ({_PARCEL})
"""  # noqa: S608 - a constant


async def insert_parcels(tx: Connection, mode: Mode, parcels: Sequence[Parcel], now: datetime) -> None:
    await tx.execute(INSERT_PARCELS, mode, now, *columns(parcels, _PARCEL))
    # Credits that were retired in advance are retired when they are allocated.
    retired = [parcel.id for parcel in parcels if parcel.status is ParcelStatus.RETIRED]
    await record_retirements(tx, mode, dict.fromkeys(retired, now))


UPDATE_PARCELS = """
UPDATE parcels SET allocated_grams = changed.allocated_grams, status = changed.status, close_at = changed.close_at,
                   retired_on = changed.retired_on,
                   retired_at = CASE WHEN changed.status = 'retired'
                                     THEN coalesce(parcels.retired_at, $2::timestamptz) END,
                   closed_at = CASE WHEN parcels.status = 'open' AND changed.status <> 'open' THEN $2
                               ELSE parcels.closed_at END
FROM unnest($3::text[], $4::bigint[], $5::text[], $6::timestamptz[], $7::date[])
     AS changed (id, allocated_grams, status, close_at, retired_on)
WHERE parcels.mode = $1 AND parcels.id = changed.id
"""


async def update_parcels(tx: Connection, mode: Mode, parcels: Sequence[Parcel], now: datetime) -> None:
    changed = columns(parcels, "id, allocated_grams, status, close_at, retired_on")
    await tx.execute(UPDATE_PARCELS, mode, now, *changed)


INSERT_SHARES = """
INSERT INTO shares (account_id, order_id, line_position, mode, parcel_id, organisation_id, beneficiary, quantity_grams,
                    assigned_at, facts_digest)
SELECT new.account_id, new.order_id, new.line_position, $1, new.parcel_id, new.organisation_id, new.beneficiary,
       new.quantity_grams, $9, lot.facts_digest
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::bigint[])
     AS new (account_id, order_id, organisation_id, beneficiary, line_position, parcel_id, quantity_grams)
JOIN parcels parcel ON parcel.mode = $1 AND parcel.id = new.parcel_id
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
ON CONFLICT (order_id, line_position, parcel_id)
    DO UPDATE SET quantity_grams = shares.quantity_grams + excluded.quantity_grams
"""


async def insert_shares(
    tx: Connection, mode: Mode, shares: Sequence[tuple[Order, Share]], assigned_at: datetime | None = None
) -> None:
    """Each with its order. `assigned_at` is for orders that are supplied again.

    A line that is supplied again may already have a share of the same unit.
    """
    await tx.execute(
        INSERT_SHARES,
        mode,
        *columns([order for order, _ in shares], "scope.account_id, id, scope.organisation_id"),
        [registry_beneficiary(order) for order, _ in shares],
        *columns([share for _, share in shares], "line_position, parcel.id, quantity_grams"),
        assigned_at,
    )


FIND_UNRETIRED = """
SELECT DISTINCT keys.account_id, keys.id
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN shares share ON share.account_id = keys.account_id AND share.order_id = keys.id
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
WHERE parcel.status <> 'retired' OR parcel.invalidated_at IS NOT NULL
"""


async def find_unretired(connection: Connection, keys: Sequence[OrderKey]) -> set[OrderKey]:
    """Those of the orders that have a share of an unretired parcel, or of an invalid lot."""
    rows = await connection.fetch(FIND_UNRETIRED, *columns(keys, "account_id, id"))
    return {OrderKey(row["account_id"], row["id"]) for row in rows}


class ParcelOfOrder(Struct, frozen=True):
    """`is_shared` if other orders have a share of it, too; `is_asked` if a registry is asked to retire it."""

    id: str
    status: ParcelStatus
    in_service_name: bool
    is_shared: bool
    is_asked: bool


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
SELECT parcel.id, parcel.status, parcel.in_service_name, parcel.instruction_id IS NOT NULL AS is_asked,
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
