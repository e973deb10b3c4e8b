"""Lists lots for an operator, and moves those that are withdrawn."""

from dataclasses import dataclass
from datetime import date, datetime

import asyncpg

from tonne.base.actor import Actor
from tonne.base.scope import Mode
from tonne.db.pool import Connection


@dataclass(frozen=True, slots=True)
class ListedLot:
    """`status` is `held`, `pre_retired` or `withdrawn`; the last two fields are set for a withdrawn lot."""

    mode: Mode
    id: str
    registry: str
    registry_project_id: str
    vintage: int
    serial_block: str
    first_number: int
    last_number: int
    quantity_grams: int
    allocated_grams: int
    status: str
    retirement_url: str | None
    retired_on: date | None
    country: str
    methodology: str | None
    created_at: datetime
    withdrawn_at: datetime | None = None
    reason: str | None = None

    @property
    def free_grams(self) -> int:
        return 0 if self.status == "withdrawn" else self.quantity_grams - self.allocated_grams


_LOT = """
lot.mode, lot.id, project.registry, project.registry_project_id, lot.vintage,
coalesce(lot.block_spelling, block.block) AS serial_block, lot.first_number, lot.last_number, lot.quantity_grams,
lot.allocated_grams, lot.status, lot.retirement_url, lot.retired_on, lot.country, lot.methodology, lot.created_at
"""
LIST_LOTS = f"""
SELECT {_LOT} FROM lots lot
JOIN serial_blocks block ON block.number = lot.serial_block
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.mode = $1 ORDER BY project.registry, project.registry_project_id, lot.vintage, lot.id
"""  # noqa: S608 - a constant


async def list_lots(connection: Connection, mode: Mode) -> list[ListedLot]:
    """By project, oldest vintage first, as they are allocated."""
    return [_listed(row) for row in await connection.fetch(LIST_LOTS, mode)]


_WITHDRAWN = """
lot.mode, lot.id, project.registry, project.registry_project_id, lot.vintage, lot.serial_block, lot.first_number,
lot.last_number, (lot.last_number - lot.first_number + 1) * 1000000 AS quantity_grams, 0::bigint AS allocated_grams,
'withdrawn' AS status, lot.retirement_url, lot.retired_on, lot.country, lot.methodology, lot.created_at,
lot.withdrawn_at, lot.reason
"""
LIST_WITHDRAWN = f"""
SELECT {_WITHDRAWN} FROM withdrawn_lots lot
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.mode = $1 ORDER BY lot.withdrawn_at, lot.id
"""  # noqa: S608 - a constant


async def list_withdrawn_lots(connection: Connection, mode: Mode) -> list[ListedLot]:
    return [_listed(row) for row in await connection.fetch(LIST_WITHDRAWN, mode)]


FIND_WITHDRAWN = f"""
SELECT {_WITHDRAWN} FROM withdrawn_lots lot
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.id = $1
"""  # noqa: S608 - a constant


async def find_withdrawn_lot(connection: Connection, lot_id: str) -> ListedLot | None:
    row = await connection.fetchrow(FIND_WITHDRAWN, lot_id)
    return None if row is None else _listed(row)


FIND_LOT = f"""
SELECT {_LOT} FROM lots lot
JOIN serial_blocks block ON block.number = lot.serial_block
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.id = $1
"""  # noqa: S608 - a constant


async def find_lot(connection: Connection, lot_id: str) -> ListedLot | None:
    row = await connection.fetchrow(FIND_LOT, lot_id)
    return None if row is None else _listed(row)


# Waits for an allocation that has locked the lot.
LOCK_LOT = f"""
SELECT {_LOT} FROM lots lot
JOIN serial_blocks block ON block.number = lot.serial_block
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.id = $1 FOR UPDATE OF lot
"""  # noqa: S608 - a constant


async def lock_lot(tx: Connection, lot_id: str) -> ListedLot | None:
    row = await tx.fetchrow(LOCK_LOT, lot_id)
    return None if row is None else _listed(row)


MOVE_LOT = """
WITH moved AS (
    DELETE FROM lots USING serial_blocks block
    WHERE lots.mode = $1 AND lots.id = $2 AND lots.allocated_grams = 0 AND block.number = lots.serial_block
    RETURNING lots.mode, lots.id, lots.project_id, lots.vintage,
              coalesce(lots.block_spelling, block.block) AS serial_block, lots.first_number, lots.last_number,
              lots.country, lots.methodology, lots.status, lots.retirement_url, lots.retired_on, lots.created_at
)
INSERT INTO withdrawn_lots (mode, id, project_id, vintage, serial_block, first_number, last_number, country,
                            methodology, status, retirement_url, retired_on, created_at, withdrawn_at, withdrawn_by,
                            reason)
SELECT mode, id, project_id, vintage, serial_block, first_number, last_number, country, methodology, status,
       retirement_url, retired_on, created_at, $3, $4, $5
FROM moved
"""


async def move_to_withdrawn(tx: Connection, lot: ListedLot, *, actor: Actor, reason: str, now: datetime) -> None:
    await tx.execute(MOVE_LOT, lot.mode, lot.id, now, str(actor), reason)


@dataclass(frozen=True, slots=True)
class ListedParcel:
    id: str
    start_grams: int
    quantity_grams: int
    status: str
    retired_on: date | None
    order_ids: list[str]


LIST_PARCELS = """
SELECT parcel.id, parcel.start_grams, parcel.quantity_grams, parcel.status, parcel.retired_on,
       ARRAY(SELECT DISTINCT share.order_id FROM shares share
             WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id ORDER BY share.order_id) AS order_ids
FROM parcels parcel WHERE parcel.mode = $1 AND parcel.lot_id = $2 ORDER BY parcel.start_grams
"""


async def list_parcels_any_account(connection: Connection, lot: ListedLot) -> list[ListedParcel]:
    """The parcels of a lot with the orders that hold them."""
    return [ListedParcel(**row) for row in await connection.fetch(LIST_PARCELS, lot.mode, lot.id)]


def _listed(row: asyncpg.Record) -> ListedLot:
    return ListedLot(**{**row, "mode": Mode(row["mode"])})
