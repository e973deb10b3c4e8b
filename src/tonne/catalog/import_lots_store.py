"""SQL of the lots' import."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tonne.base.ids import new_id
from tonne.base.scope import Mode
from tonne.catalog.csv_rows import LotRow, ProjectKey, SerialBlock
from tonne.db.pool import Connection


@dataclass(frozen=True, slots=True)
class StoredLot:
    mode: Mode
    id: str
    row: LotRow


READ_LOTS = """
SELECT lots.mode, lots.id, serial_blocks.registry, registry_project_id, vintage, serial_blocks.block AS serial_block,
       first_number, last_number, status, retirement_url, retired_on, lots.country, lots.methodology
FROM unnest($1::text[], $2::text[]) AS named (registry, block)
JOIN serial_blocks USING (registry, block)
JOIN lots ON lots.serial_block = serial_blocks.number
JOIN projects ON projects.mode = lots.mode AND projects.id = lots.project_id
ORDER BY first_number
"""


async def read_lots(tx: Connection, blocks: Iterable[SerialBlock]) -> list[StoredLot]:
    """Of both modes, since a serial number belongs to one lot only; by first number."""
    named = sorted(blocks)
    rows = [
        dict(row) for row in await tx.fetch(READ_LOTS, [block[0] for block in named], [block[1] for block in named])
    ]
    return [StoredLot(Mode(row.pop("mode")), row.pop("id"), LotRow(**row)) for row in rows]


# A lot that somebody else holds is about to be allocated: waiting for it could end in a deadlock.
LOCK_UNALLOCATED_LOTS = """
SELECT id FROM lots WHERE mode = $1 AND id = ANY ($2) AND allocated_grams = 0 FOR UPDATE SKIP LOCKED
"""


async def lock_unallocated_lots(tx: Connection, mode: Mode, ids: Iterable[str]) -> set[str]:
    """Which of these lots may still be changed; they stay so until the transaction ends."""
    return {row["id"] for row in await tx.fetch(LOCK_UNALLOCATED_LOTS, mode, list(ids))}


# Not ON CONFLICT DO NOTHING, which would use up a block number with every import.
SAVE_SERIAL_BLOCKS = """
INSERT INTO serial_blocks (registry, block)
SELECT registry, block FROM unnest($1::text[], $2::text[]) AS named (registry, block)
WHERE (registry, block) NOT IN (SELECT registry, block FROM serial_blocks)
"""


async def save_serial_blocks(tx: Connection, blocks: Iterable[SerialBlock]) -> None:
    named = sorted(blocks)
    await tx.execute(SAVE_SERIAL_BLOCKS, [block[0] for block in named], [block[1] for block in named])


INSERT_LOT = """
INSERT INTO lots (mode, id, project_id, vintage, serial_block, first_number, last_number, country, methodology, status,
                  retirement_url, retired_on, created_at)
VALUES ($1, $2, $3, $4, (SELECT number FROM serial_blocks WHERE registry = $5 AND block = $6), $7, $8, $9, $10, $11,
        $12, $13, $14)
"""


async def insert_lots(
    tx: Connection, mode: Mode, rows: Iterable[LotRow], project_ids: Mapping[ProjectKey, str], now: datetime
) -> None:
    await tx.executemany(
        INSERT_LOT,
        [
            (
                mode,
                new_id("lot"),
                project_ids[row.project_key],
                row.vintage,
                row.registry,
                row.serial_block,
                row.first_number,
                row.last_number,
                row.country,
                row.methodology,
                row.status,
                row.retirement_url,
                row.retired_on,
                now,
            )
            for row in rows
        ],
    )


UPDATE_LOT = """
UPDATE lots SET project_id = $3, vintage = $4, country = $5, methodology = $6, status = $7, retirement_url = $8,
                retired_on = $9
WHERE mode = $1 AND id = $2
"""


async def update_lots(
    tx: Connection, mode: Mode, rows: Mapping[str, LotRow], project_ids: Mapping[ProjectKey, str]
) -> None:
    """`rows` by id; the caller holds their locks."""
    await tx.executemany(
        UPDATE_LOT,
        [
            (
                mode,
                lot_id,
                project_ids[row.project_key],
                row.vintage,
                row.country,
                row.methodology,
                row.status,
                row.retirement_url,
                row.retired_on,
            )
            for lot_id, row in rows.items()
        ],
    )
