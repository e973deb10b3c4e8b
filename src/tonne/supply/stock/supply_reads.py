"""What the supply pages read: the grams of projects and lots by what became of them, and orders that wait."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, replace
from tonne.supply.stock.lots.lot_store import ListedLot, add_retired_any_account


class ProjectSupply(Struct, frozen=True):
    """The grams of all lots of a project. `free_grams` includes `reserved_grams`, which checkouts hold."""

    project_id: str
    name: str
    registry: str
    registry_project_id: str
    lot_count: int
    free_grams: int
    # Of lots that are paused, which supply no orders.
    paused_grams: int
    reserved_grams: int
    # In parcels that are not retired yet.
    held_grams: int
    retired_grams: int
    # Grams of lots that were invalidated.
    invalid_grams: int


# Retired grams are computed from those that are not: there are always few of them.
LIST_SUPPLY = """
SELECT project.id AS project_id, project.name, project.registry, project.registry_project_id, supply.lot_count,
       supply.free_grams, supply.paused_grams,
       least(supply.free_grams, coalesce(hold.grams, 0))::bigint AS reserved_grams,
       coalesce(held.grams, 0)::bigint AS held_grams,
       (supply.allocated_grams - coalesce(held.grams, 0))::bigint AS retired_grams, supply.invalid_grams
FROM projects project
JOIN (SELECT project_id, count(*) AS lot_count,
             coalesce(sum(quantity_grams - allocated_grams) FILTER (WHERE paused_at IS NULL), 0)::bigint AS free_grams,
             coalesce(sum(quantity_grams - allocated_grams) FILTER (WHERE paused_at IS NOT NULL), 0)::bigint
                 AS paused_grams,
             coalesce(sum(allocated_grams) FILTER (WHERE invalidated_at IS NULL), 0)::bigint AS allocated_grams,
             coalesce(sum(quantity_grams) FILTER (WHERE invalidated_at IS NOT NULL), 0)::bigint AS invalid_grams
      FROM lots WHERE mode = $1 GROUP BY project_id) supply ON supply.project_id = project.id
LEFT JOIN (SELECT project_id, sum(quantity_grams) AS grams
           FROM (SELECT project_id, quantity_grams FROM parcels WHERE mode = $1 AND status = 'to_retire'
                   AND invalidated_at IS NULL
                 UNION ALL
                 SELECT project_id, quantity_grams FROM parcels WHERE mode = $1 AND status = 'open') waiting
           GROUP BY project_id) held ON held.project_id = project.id
LEFT JOIN (SELECT project_id, sum(reserved_grams) AS grams FROM supply_holds WHERE mode = $1 GROUP BY project_id) hold
       ON hold.project_id = project.id
WHERE project.mode = $1 ORDER BY project.name, project.id
"""


async def list_supply_any_account(connection: Connection, mode: Mode) -> list[ProjectSupply]:
    """All projects that have lots."""
    return [ProjectSupply(**row) for row in await connection.fetch(LIST_SUPPLY, mode)]


READ_HELD_OF_LOTS = """
SELECT lot_id, sum(quantity_grams)::bigint AS grams
FROM (SELECT lot_id, quantity_grams FROM parcels
      WHERE mode = $1 AND status = 'to_retire' AND lot_id = ANY ($2::text[])
      UNION ALL
      SELECT lot_id, quantity_grams FROM parcels
      WHERE mode = $1 AND status = 'open' AND lot_id = ANY ($2::text[])) waiting
GROUP BY lot_id
"""


async def add_retired_quickly_any_account(
    connection: Connection, mode: Mode, lots: Sequence[ListedLot]
) -> list[ListedLot]:
    """These lots with the grams that are retired of each, without reading the parcels that are."""
    valid = [lot for lot in lots if lot.invalidated_at is None]
    rows = await connection.fetch(READ_HELD_OF_LOTS, mode, [lot.id for lot in valid])
    held = {row["lot_id"]: row["grams"] for row in rows}
    known = {lot.id: replace(lot, retired_grams=lot.allocated_grams - held.get(lot.id, 0)) for lot in valid}
    invalid = [lot for lot in lots if lot.invalidated_at is not None]
    known |= {lot.id: lot for lot in await add_retired_any_account(connection, mode, invalid)}
    return [known[lot.id] for lot in lots]


class Backorder(Struct, frozen=True):
    order_id: str
    organisation_name: str
    quantity_grams: int
    paid_at: datetime


# An order that was paid just now gets its credits within seconds.
LIST_BACKORDERS = """
SELECT orders.id AS order_id, organisations.name AS organisation_name, orders.quantity_grams,
       orders.status_changed_at AS paid_at
FROM orders JOIN organisations ON organisations.id = orders.organisation_id
WHERE orders.mode = $1 AND orders.status = 'paid' AND orders.next_attempt_at IS NOT NULL
  AND greatest(orders.status_changed_at, orders.fulfil_after) < $2::timestamptz - interval '1 minute'
ORDER BY orders.status_changed_at, orders.id LIMIT $3
"""


async def list_backorders_any_account(connection: Connection, mode: Mode, now: datetime, limit: int) -> list[Backorder]:
    """Paid orders without credits, first paid first."""
    return [Backorder(**row) for row in await connection.fetch(LIST_BACKORDERS, mode, now, limit)]


FIND_PROJECT = "SELECT id, name, registry, registry_project_id FROM projects WHERE mode = $1 AND id = $2"


class ProjectName(Struct, frozen=True):
    id: str
    name: str
    registry: str
    registry_project_id: str


async def find_project(connection: Connection, mode: Mode, project_id: str) -> ProjectName | None:
    row = await connection.fetchrow(FIND_PROJECT, mode, project_id)
    return None if row is None else ProjectName(**row)


FIND_PROJECT_OF_LOT = """
SELECT project_id FROM lots WHERE id = $1 UNION ALL SELECT project_id FROM withdrawn_lots WHERE id = $1 LIMIT 1
"""


async def find_project_of_lot(connection: Connection, lot_id: str) -> str:
    return str(await connection.fetchval(FIND_PROJECT_OF_LOT, lot_id))
