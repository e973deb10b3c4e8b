"""SQL of allocation: locks lots and units, and writes parcels and shares."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from tonne.base.scope import Mode
from tonne.db.columns import columns
from tonne.db.pool import Connection
from tonne.orders.model import Order, OrderKey
from tonne.retirements.model import Lot, LotStatus, Parcel, ParcelStatus, Share
from tonne.retirements.supply import Source

FIND_SOURCES = """
SELECT share.bundle_id, project.id AS project_id, share.weight, project.granularity_grams,
       project.name, project.type, project.slug
FROM bundle_projects share JOIN projects project ON project.mode = share.mode AND project.id = share.project_id
WHERE share.mode = $1 AND share.bundle_id = ANY ($2::text[]) ORDER BY share.bundle_id, share.position, project.id
"""


class Sources:
    """The projects of some bundles."""

    def __init__(self) -> None:
        self.by_bundle: dict[str, list[Source]] = {}
        # Name, type and slug, for the order.
        self.descriptions: dict[str, tuple[str, str, str]] = {}


async def find_sources(connection: Connection, mode: Mode, bundle_ids: Iterable[str]) -> Sources:
    found = Sources()
    for row in await connection.fetch(FIND_SOURCES, mode, sorted(set(bundle_ids))):
        source = Source(row["project_id"], row["weight"], row["granularity_grams"])
        found.by_bundle.setdefault(row["bundle_id"], []).append(source)
        found.descriptions[row["project_id"]] = (row["name"], row["type"], row["slug"])
    return found


# Sorted to prevent deadlocks between workers.
LOCK_LOTS = """
SELECT id, project_id, vintage, status, quantity_grams, allocated_grams, retired_on, retirement_url FROM lots
WHERE mode = $1 AND project_id = ANY ($2::text[]) AND allocated_grams < quantity_grams ORDER BY id FOR UPDATE
"""


async def lock_lots(tx: Connection, mode: Mode, project_ids: Iterable[str]) -> list[Lot]:
    rows = await tx.fetch(LOCK_LOTS, mode, list(project_ids))
    return [Lot(**{**row, "status": LotStatus(row["status"])}) for row in rows]


# The fields of Parcel.
_PARCEL = """id, lot_id, project_id, start_grams, quantity_grams, allocated_grams, account_id, beneficiary, status, \
close_at, retired_on, retirement_url"""
LOCK_UNITS = f"""
SELECT {_PARCEL} FROM parcels
WHERE mode = $1 AND project_id = ANY ($2::text[]) AND allocated_grams < quantity_grams
  AND (account_id IS NULL OR account_id = ANY ($3::text[]))
ORDER BY id FOR UPDATE
"""  # noqa: S608 - a constant


async def lock_units_any_account(
    tx: Connection, mode: Mode, project_ids: Iterable[str], account_ids: Iterable[str]
) -> list[Parcel]:
    """Units with free grams: those in the service's name, and the open ones of these accounts."""
    rows = await tx.fetch(LOCK_UNITS, mode, list(project_ids), list(account_ids))
    return [Parcel(**{**row, "status": ParcelStatus(row["status"])}) for row in rows]


ADVANCE_LOTS = """
UPDATE lots SET allocated_grams = taken.allocated_grams
FROM unnest($2::text[], $3::bigint[]) AS taken (id, allocated_grams) WHERE lots.mode = $1 AND lots.id = taken.id
"""


async def advance_lots(tx: Connection, mode: Mode, lots: Sequence[Lot]) -> None:
    await tx.execute(ADVANCE_LOTS, mode, *columns(lots, "id, allocated_grams"))


INSERT_PARCELS = f"""
INSERT INTO parcels (mode, {_PARCEL}, in_service_name, opened_at, retired_at)
SELECT $1, {_PARCEL}, account_id IS NULL, $2::timestamptz, CASE WHEN status = 'retired' THEN $2::timestamptz END
FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[],
            $11::text[], $12::timestamptz[], $13::date[], $14::text[]) AS new ({_PARCEL})
"""  # noqa: S608 - a constant


async def insert_parcels(tx: Connection, mode: Mode, parcels: Sequence[Parcel], now: datetime) -> None:
    await tx.execute(INSERT_PARCELS, mode, now, *columns(parcels, _PARCEL))


UPDATE_PARCELS = """
UPDATE parcels SET allocated_grams = changed.allocated_grams, status = changed.status, close_at = changed.close_at,
                   retired_on = changed.retired_on,
                   retired_at = CASE WHEN changed.status = 'retired'
                                     THEN coalesce(parcels.retired_at, $2::timestamptz) END
FROM unnest($3::text[], $4::bigint[], $5::text[], $6::timestamptz[], $7::date[])
     AS changed (id, allocated_grams, status, close_at, retired_on)
WHERE parcels.mode = $1 AND parcels.id = changed.id
"""


async def update_parcels(tx: Connection, mode: Mode, parcels: Sequence[Parcel], now: datetime) -> None:
    changed = columns(parcels, "id, allocated_grams, status, close_at, retired_on")
    await tx.execute(UPDATE_PARCELS, mode, now, *changed)


INSERT_SHARES = """
INSERT INTO shares (account_id, order_id, line_position, mode, parcel_id, organisation_id, beneficiary, quantity_grams)
SELECT account_id, order_id, line_position, $1, parcel_id, organisation_id, beneficiary, quantity_grams
FROM unnest($2::text[], $3::text[], $4::text[], $5::smallint[], $6::text[], $7::bigint[], $8::text[])
     AS new (account_id, order_id, organisation_id, line_position, parcel_id, quantity_grams, beneficiary)
"""


async def insert_shares(tx: Connection, mode: Mode, shares: Sequence[tuple[Order, str, Share]]) -> None:
    """Each with its order and the beneficiary."""
    await tx.execute(
        INSERT_SHARES,
        mode,
        *columns([order for order, _, _ in shares], "scope.account_id, id, scope.organisation_id"),
        *columns([share for _, _, share in shares], "line_position, parcel.id, quantity_grams"),
        [beneficiary for _, beneficiary, _ in shares],
    )


FIND_BENEFICIARIES = "SELECT id, beneficiary FROM accounts WHERE id = ANY ($1::text[])"


async def find_beneficiaries_any_account(connection: Connection, account_ids: Iterable[str]) -> dict[str, str]:
    rows = await connection.fetch(FIND_BENEFICIARIES, sorted(set(account_ids)))
    return {row["id"]: row["beneficiary"] for row in rows}


FIND_UNRETIRED = """
SELECT DISTINCT wanted.account_id, wanted.id
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
JOIN shares share ON share.account_id = wanted.account_id AND share.order_id = wanted.id
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
WHERE parcel.status <> 'retired'
"""


async def find_unretired(connection: Connection, keys: Sequence[OrderKey]) -> set[OrderKey]:
    """Those of the orders that have a share of an unretired parcel."""
    rows = await connection.fetch(FIND_UNRETIRED, *columns(keys, "account_id, id"))
    return {OrderKey(row["account_id"], row["id"]) for row in rows}
