"""SQL of parcels that a person has in an exported work list."""

from collections.abc import Collection

from tonne.platform.db.database import Connection
from tonne.platform.values.context import By, Mode

MARK = """
UPDATE parcels SET exported_at = $3, exported_by = $4
WHERE mode = $1 AND id IN (
    SELECT id FROM parcels
    WHERE mode = $1 AND id = ANY ($2::text[]) AND status = 'to_retire' AND instruction_id IS NULL
      AND exported_at IS NULL
    ORDER BY id FOR UPDATE)
RETURNING id
"""


async def mark_any_account(tx: Connection, mode: Mode, ids: Collection[str], by: By) -> list[str]:
    """Those of the parcels that nobody has, or is asked for. Now this person has them."""
    return [row["id"] for row in await tx.fetch(MARK, mode, list(ids), by.at, str(by.actor))]


CLEAR = """
UPDATE parcels SET exported_at = NULL, exported_by = NULL
WHERE mode = $1 AND id IN (
    SELECT id FROM parcels WHERE mode = $1 AND id = ANY ($2::text[]) AND status = 'to_retire' ORDER BY id FOR UPDATE)
"""


async def clear_any_account(tx: Connection, mode: Mode, ids: Collection[str]) -> None:
    """Nobody retires them."""
    await tx.execute(CLEAR, mode, list(ids))
