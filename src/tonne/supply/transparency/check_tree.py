"""For the doctor: recomputes the trees of all logs from their entries."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.process.progress import progress
from tonne.supply.transparency.log_store import list_logs
from tonne.supply.transparency.model import Log
from tonne.supply.transparency.tile_store import read_tiles
from tonne.supply.transparency.tree import FULL_TILE, TreeBroken, tile_root
from tonne_verify.errors import NotProven
from tonne_verify.merkle import HASH_SIZE, Range, leaf_hash
from tonne_verify.tiles import TILE_WIDTH, range_plan, split_entries

TREE = "the tree of the log has the tiles and the roots of its entries"
TREE_MEANING = (
    "The published log is not the tree of its entries: monitors report it, and proofs of certificates may fail."
)
TREE_REMEDY = "Stop the worker: nothing more may be published. Compare the database with a backup to find what changed."
# Bundles and tiles per statement.
BATCH = 64
# Problems of one log that are listed.
MAX_FOUND = 10


async def find_broken_trees(connection: Connection, since: datetime | None = None) -> list[str]:
    """What is wrong with the trees. With `since`, only what was appended after the last checkpoint before it."""
    found = []
    for log in await list_logs(connection):
        check = _TreeCheck(connection, log)
        try:
            await check.run(since)
        except (TreeBroken, NotProven) as error:
            check.found.append(str(error))
        found += [f"log {log.origin}: {problem}" for problem in check.found[:MAX_FOUND]]
    return found


READ_BUNDLES = """
SELECT number, entries, (SELECT hashes FROM log_tiles tile
                         WHERE tile.log_id = bundle.log_id AND level = 0 AND tile.number = bundle.number) AS hashes
FROM log_entries bundle WHERE log_id = $1 AND number BETWEEN $2 AND $3 ORDER BY number
"""
READ_LEVEL = """
SELECT number, hashes FROM log_tiles WHERE log_id = $1 AND level = $2 AND number BETWEEN $3 AND $4 ORDER BY number
"""
READ_ROOTS = "SELECT size, root FROM log_checkpoints WHERE log_id = $1 AND size > $2 AND size <= $3 ORDER BY size"
LAST_BEFORE = "SELECT coalesce(max(size), 0) FROM log_checkpoints WHERE log_id = $1 AND published_at < $2"


class _TreeCheck:
    """The tree up to the size that it had at the start: it may grow meanwhile."""

    def __init__(self, connection: Connection, log: Log) -> None:
        self._connection = connection
        self._log = log
        self.found: list[str] = []

    async def run(self, since: datetime | None) -> None:
        start = 0 if since is None else await self._connection.fetchval(LAST_BEFORE, self._log.id, since)
        # Whole tiles are compared.
        start -= start % TILE_WIDTH
        plan = range_plan(start)
        tree = Range(start, plan.compute(await read_tiles(self._connection, self._log.id, plan.tiles)))
        roots = self._roots(start)
        expected = await anext(roots, None)
        with progress(f"Checking the tree of {self._log.origin}", self._log.size - start) as advance:
            async for number, entries, hashes in self._bundles(start // TILE_WIDTH):
                leaves = [leaf_hash(entry) for entry in entries]
                if b"".join(leaves) != hashes:
                    self.found.append(f"tile {number} of level 0 does not have the hashes of its entries")
                for leaf in leaves:
                    tree.append(leaf)
                    if expected is not None and tree.size == expected[0]:
                        if tree.root() != expected[1]:
                            self.found.append(f"the checkpoint of size {expected[0]} has another root than the tree")
                        expected = await anext(roots, None)
                advance(len(entries))
        if tree.size != self._log.size:
            self.found.append(f"there are {tree.size} entries, and the size is {self._log.size}")
        await self._check_upper_levels(start)

    async def _bundles(self, first: int) -> AsyncIterator[tuple[int, list[bytes], bytes]]:
        """The entries of each bundle and the stored leaf hashes, up to the size of the tree."""
        last = (self._log.size - 1) // TILE_WIDTH
        for start in range(first, last + 1, BATCH):
            end = min(start + BATCH - 1, last)
            for row in await self._connection.fetch(READ_BUNDLES, self._log.id, start, end):
                width = min(self._log.size - row["number"] * TILE_WIDTH, TILE_WIDTH)
                yield row["number"], split_entries(row["entries"])[:width], (row["hashes"] or b"")[: width * HASH_SIZE]

    async def _roots(self, start: int) -> AsyncIterator[tuple[int, bytes]]:
        """The checkpoints in the order of their sizes, read in parts."""
        while rows := await self._connection.fetch(READ_ROOTS, self._log.id, start, start + BATCH * TILE_WIDTH):
            for row in rows:
                yield row["size"], row["root"]
            start = rows[-1]["size"]

    async def _check_upper_levels(self, start: int) -> None:
        """Each hash above level 0 is the root of a full tile of the level below."""
        level, first, end = 1, start // TILE_WIDTH, self._log.size // TILE_WIDTH
        while end:
            for number in range(first, end, BATCH):
                last = min(number + BATCH, end) - 1
                below = await self._read_level(level - 1, number, last)
                above = await self._read_level(level, number // TILE_WIDTH, last // TILE_WIDTH)
                self._compare_levels(level, range(number, last + 1), below, above)
            level, first, end = level + 1, first // TILE_WIDTH, end // TILE_WIDTH

    def _compare_levels(
        self, level: int, numbers: range, below: Mapping[int, bytes], above: Mapping[int, bytes]
    ) -> None:
        for number in numbers:
            tile, place = divmod(number, TILE_WIDTH)
            stated = above.get(tile, b"")[place * HASH_SIZE : (place + 1) * HASH_SIZE]
            hashes = below.get(number, b"")
            if len(hashes) != FULL_TILE or tile_root(hashes) != stated:
                self.found.append(f"tile {tile} of level {level} does not have the root of tile {number} below it")

    async def _read_level(self, level: int, first: int, last: int) -> dict[int, bytes]:
        rows = await self._connection.fetch(READ_LEVEL, self._log.id, level, first, last)
        return {row["number"]: row["hashes"] for row in rows}
