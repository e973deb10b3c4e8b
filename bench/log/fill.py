"""A transparency log of any size, built directly: computed hashes are copied into its tables."""

import hashlib
from collections.abc import Iterator

from bench.copies import without_flushing, without_indexes
from bench.environment import Environment
from bench.tenants import MODE
from tonne.platform.db.database import Connection
from tonne.platform.values.context import utc_now
from tonne.supply.transparency.log_store import open_log
from tonne.supply.transparency.tree import tile_root
from tonne_verify.merkle import leaf_hash
from tonne_verify.tiles import TILE_WIDTH, join_entries

# Tiles that are copied at once.
CHUNK = 1_000
TABLES = ("log_tiles", "log_entries", "log_checkpoints")

EMPTY_LOG = "UPDATE logs SET size = $2, published_size = 0, next_publish_at = now() WHERE mode = $1 RETURNING id"
REMOVE_FILLING = "DELETE FROM log_statements WHERE subject LIKE 'bench\\_%'"
# Statements of real certificates and retirements wait again.
UNLOG = """
UPDATE log_statements SET log_id = NULL, position = NULL, statement = NULL, salt = NULL, names = NULL, names_salt = NULL
WHERE log_id IS NOT NULL
"""
# Short, because reading them is not measured: the tree and the indexes are as large as in a real log.
FILL_STATEMENTS = """
INSERT INTO log_statements (mode, kind, subject, at, statement, salt, log_id, position)
SELECT $1, 'retirement', 'bench_' || lpad(position::text, 20, '0'), now(), '\\x7b7d', $3, $2, position
FROM generate_series(0, $4::bigint - 1) AS position
"""


async def fill_log(environment: Environment, size: int) -> None:
    """Give the log a tree of this size, without checkpoints. All other statements wait to be appended."""
    async with environment.connection() as one, environment.connection() as two, without_flushing(one):
        await one.execute(f"TRUNCATE {', '.join(TABLES)}")
        await one.execute(REMOVE_FILLING)
        await one.execute(UNLOG)
        for head in (environment.folder / "log-heads").glob("*.checkpoint"):
            head.unlink()
        await open_log(one, MODE, 1, "bench/log/test", utc_now())
        log_id = await one.fetchval(EMPTY_LOG, MODE, size)
        async with without_indexes(one, two, ("log_statements",) if size >= 1_000_000 else ()):
            await one.execute(FILL_STATEMENTS, MODE, log_id, bytes(32), size, timeout=3600)
        await _copy_tree(one, log_id, size)
        await one.execute("VACUUM ANALYZE logs, log_statements, log_tiles, log_entries, log_checkpoints")


async def _copy_tree(connection: Connection, log_id: int, size: int) -> None:
    level, hashes = 0, await _copy_leaves(connection, log_id, size)
    while hashes:
        level += 1
        tiles = [hashes[at : at + TILE_WIDTH] for at in range(0, len(hashes), TILE_WIDTH)]
        rows = [(log_id, level, number, b"".join(tile)) for number, tile in enumerate(tiles)]
        await connection.copy_records_to_table(
            "log_tiles", records=rows, columns=("log_id", "level", "number", "hashes")
        )
        hashes = [tile_root(b"".join(tile)) for tile in tiles if len(tile) == TILE_WIDTH]


async def _copy_leaves(connection: Connection, log_id: int, size: int) -> list[bytes]:
    """Write the entries and the lowest tiles. Returns the roots of the full ones."""
    roots = []
    count = -(-size // TILE_WIDTH)
    for first in range(0, count, CHUNK):
        tiles, bundles = [], []
        for number in range(first, min(count, first + CHUNK)):
            entries = list(_entries(number, size))
            hashes = b"".join(map(leaf_hash, entries))
            tiles.append((log_id, 0, number, hashes))
            bundles.append((log_id, number, join_entries(entries)))
            if len(entries) == TILE_WIDTH:
                roots.append(tile_root(hashes))
        await connection.copy_records_to_table(
            "log_tiles", records=tiles, columns=("log_id", "level", "number", "hashes")
        )
        await connection.copy_records_to_table("log_entries", records=bundles, columns=("log_id", "number", "entries"))
    return roots


def _entries(number: int, size: int) -> Iterator[bytes]:
    for position in range(number * TILE_WIDTH, min(size, (number + 1) * TILE_WIDTH)):
        yield hashlib.sha256(position.to_bytes(8)).digest()
