"""SQL of the lots that a person retires, for a comparison with a statement of the account."""

from datetime import date

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode


class DeskLot(Struct, frozen=True, kw_only=True):
    """`here_units` are not retired by the books; of them, `desk_units` are on the work list, perhaps retired already.

    `late_units` were retired on the day of the statement or later. `explained_units`: as in LotBooks.
    """

    lot_id: str
    registry: str
    namespace: str
    first_number: int
    last_number: int
    unit_grams: int
    here_units: int
    desk_units: int
    late_units: int
    explained_units: int
    is_invalid: bool


READ_DESK_LOTS = """
SELECT lot.id AS lot_id, project.registry, block.namespace, lot.first_number, lot.last_number,
       lot.unit_grams,
       (lot.quantity_grams - lot.allocated_grams + coalesce(parts.waiting, 0)) / lot.unit_grams AS here_units,
       coalesce(parts.desk, 0) / lot.unit_grams AS desk_units, coalesce(parts.late, 0) / lot.unit_grams AS late_units,
       coalesce(explained.units, 0)::bigint AS explained_units, lot.invalidated_at IS NOT NULL AS is_invalid
FROM lots lot JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
JOIN serial_blocks block ON block.number = lot.serial_block
LEFT JOIN (SELECT lot_id,
                  (sum(quantity_grams) FILTER (WHERE status IN ('to_retire', 'open')))::bigint AS waiting,
                  (sum(quantity_grams) FILTER (WHERE status = 'to_retire'))::bigint AS desk,
                  (sum(quantity_grams) FILTER (WHERE status = 'retired' AND retired_on >= $2))::bigint AS late
           FROM parcels WHERE mode = $1 GROUP BY lot_id) parts ON parts.lot_id = lot.id
LEFT JOIN (SELECT lot_id, sum(units) AS units FROM registry_drifts
           WHERE mode = $1 AND resolution = 'explained' AND cause = 'difference' GROUP BY lot_id) explained
       ON explained.lot_id = lot.id
WHERE lot.mode = $1 AND lot.registry_account IS NULL AND lot.status = 'held'
"""


async def read_desk_lots_any_account(connection: Connection, mode: Mode, day: date) -> list[DeskLot]:
    """Of all registries."""
    return [DeskLot(**row) for row in await connection.fetch(READ_DESK_LOTS, mode, day)]


SAVE_DESK = """
INSERT INTO registry_accounts (id, mode, adapter, next_look_at) VALUES ($1, $2, 'desk', 'infinity')
ON CONFLICT (id) DO NOTHING
"""


async def save_desk(tx: Connection, account_id: str, mode: Mode) -> None:
    await tx.execute(SAVE_DESK, account_id, mode)
