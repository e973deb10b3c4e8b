"""SQL of what the log serves: only what the newest checkpoint covers."""

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne_verify.tiles import TileId

FIND_TILE = """
SELECT log.published_size, tile.hashes FROM logs log
JOIN log_tiles tile ON tile.log_id = log.id AND tile.level = $3 AND tile.number = $4
WHERE log.mode = $1 AND log.generation = $2
"""


async def find_tile(connection: Connection, mode: Mode, generation: int, tile: TileId) -> tuple[int, bytes] | None:
    """The published size of the log, and the hashes that its tile has by now."""
    row = await connection.fetchrow(FIND_TILE, mode, generation, tile.level, tile.index)
    return None if row is None else (row["published_size"], row["hashes"])


FIND_BUNDLE = """
SELECT log.published_size, bundle.entries FROM logs log
JOIN log_entries bundle ON bundle.log_id = log.id AND bundle.number = $3
WHERE log.mode = $1 AND log.generation = $2
"""


async def find_bundle(connection: Connection, mode: Mode, generation: int, number: int) -> tuple[int, bytes] | None:
    """The published size of the log, and the entries that its bundle has by now."""
    row = await connection.fetchrow(FIND_BUNDLE, mode, generation, number)
    return None if row is None else (row["published_size"], row["entries"])


FIND_NOTE = """
SELECT checkpoint.note FROM log_checkpoints checkpoint JOIN logs log ON log.id = checkpoint.log_id
WHERE log.mode = $1 AND log.generation = $2 ORDER BY checkpoint.size DESC LIMIT 1
"""


async def find_note(connection: Connection, mode: Mode, generation: int) -> str | None:
    """The newest checkpoint, signed and cosigned."""
    note: str | None = await connection.fetchval(FIND_NOTE, mode, generation)
    return note
