"""SQL of tiles and bundles of entries."""

from collections.abc import Iterable, Mapping, Sequence

from tonne.platform.db.database import Connection
from tonne.supply.transparency.tree import GrownTile, TreeBroken, last_tiles
from tonne_verify.merkle import HASH_SIZE
from tonne_verify.tiles import TILE_WIDTH, TileId, join_entries

READ_TILES = """
SELECT tile.level, tile.number, tile.hashes FROM log_tiles tile
JOIN unnest($2::smallint[], $3::bigint[]) AS keys (level, number)
  ON keys.level = tile.level AND keys.number = tile.number
WHERE tile.log_id = $1
"""


async def read_tiles(connection: Connection, log_id: int, tiles: Iterable[TileId]) -> dict[TileId, bytes]:
    """These tiles, each of its width: the stored one may have grown since. Raises TreeBroken if one is missing."""
    requested = list(tiles)
    places = sorted({(tile.level, tile.index) for tile in requested})
    rows = await connection.fetch(READ_TILES, log_id, [level for level, _ in places], [number for _, number in places])
    stored: Mapping[tuple[int, int], bytes] = {(row["level"], row["number"]): row["hashes"] for row in rows}
    found = {tile: stored.get((tile.level, tile.index), b"")[: tile.width * HASH_SIZE] for tile in requested}
    for tile, hashes in found.items():
        if len(hashes) != tile.width * HASH_SIZE:
            raise TreeBroken(f"Tile {tile.index} of level {tile.level} does not have {tile.width} hashes.")
    return found


async def read_last_tiles(connection: Connection, log_id: int, size: int) -> dict[int, bytes]:
    """The partial tiles of a tree, by level."""
    requested = [TileId(level, number, width) for level, number, width in last_tiles(size)]
    return {tile.level: hashes for tile, hashes in (await read_tiles(connection, log_id, requested)).items()}


WRITE_TILES = """
INSERT INTO log_tiles (log_id, level, number, hashes)
SELECT $1, level, number, hashes FROM unnest($2::smallint[], $3::bigint[], $4::bytea[]) AS grown (level, number, hashes)
ON CONFLICT (log_id, level, number) DO UPDATE SET hashes = excluded.hashes
"""


async def write_tiles(tx: Connection, log_id: int, tiles: Sequence[GrownTile]) -> None:
    await tx.execute(
        WRITE_TILES,
        log_id,
        [tile.level for tile in tiles],
        [tile.number for tile in tiles],
        [tile.hashes for tile in tiles],
    )


READ_ENTRIES = "SELECT entries FROM log_entries WHERE log_id = $1 AND number = $2"


async def read_entries(connection: Connection, log_id: int, number: int) -> bytes:
    """A bundle; empty if there is none."""
    found: bytes | None = await connection.fetchval(READ_ENTRIES, log_id, number)
    return found or b""


WRITE_ENTRIES = """
INSERT INTO log_entries (log_id, number, entries)
SELECT $1, number, entries FROM unnest($2::bigint[], $3::bytea[]) AS grown (number, entries)
ON CONFLICT (log_id, number) DO UPDATE SET entries = excluded.entries
"""


async def append_entries(tx: Connection, log_id: int, size: int, entries: Sequence[bytes]) -> None:
    """To the bundles of a tree of this size. Only the first entry of a later generation has another length."""
    number, width = divmod(size, TILE_WIDTH)
    bundle = await read_entries(tx, log_id, number) if width else b""
    if (width == 0) != (not bundle):
        raise TreeBroken(f"Bundle {number} does not have {width} entries.")
    first = entries[: TILE_WIDTH - width]
    bundles = [bundle + join_entries(first)]
    rest = entries[len(first) :]
    bundles += [join_entries(rest[at : at + TILE_WIDTH]) for at in range(0, len(rest), TILE_WIDTH)]
    await tx.execute(WRITE_ENTRIES, log_id, list(range(number, number + len(bundles))), bundles)
