"""Growing a tree of tiles. No I/O."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tonne_verify.merkle import HASH_SIZE, node_hash
from tonne_verify.tiles import TILE_HEIGHT, TILE_WIDTH

FULL_TILE = HASH_SIZE * TILE_WIDTH


class TreeBroken(Exception):
    """The stored tiles do not have the hashes that the size of the tree says. Nothing may be appended."""


class GrownTile(Struct, frozen=True):
    level: int
    number: int
    hashes: bytes


def last_tiles(size: int) -> list[tuple[int, int, int]]:
    """Level, number and width of the tiles that grow next, of every level that has one."""
    found, level, count = [], 0, size
    while count:
        number, width = divmod(count, TILE_WIDTH)
        if width:
            found.append((level, number, width))
        level, count = level + 1, number
    return found


def grow_tiles(size: int, leaves: Sequence[bytes], partial: Mapping[int, bytes]) -> list[GrownTile]:
    """The tiles that change when leaf hashes are appended. `partial` has the tiles of `last_tiles` by level.

    It costs O(log n) besides the hashes of the new tiles.
    """
    grown, level, hashes = [], 0, list(leaves)
    while hashes:
        number, width = divmod(size >> (TILE_HEIGHT * level), TILE_WIDTH)
        start = partial.get(level, b"") if width else b""
        if len(start) != width * HASH_SIZE:
            raise TreeBroken(f"Tile {number} of level {level} does not have {width} hashes.")
        content = start + b"".join(hashes)
        hashes = []
        for at in range(0, len(content), FULL_TILE):
            tile = GrownTile(level, number, content[at : at + FULL_TILE])
            grown.append(tile)
            number += 1
            if len(tile.hashes) == FULL_TILE:
                hashes.append(tile_root(tile.hashes))
        level += 1
    return grown


def tile_root(hashes: bytes) -> bytes:
    """The root above the 256 hashes of a full tile."""
    nodes = [hashes[at : at + HASH_SIZE] for at in range(0, len(hashes), HASH_SIZE)]
    while len(nodes) > 1:
        nodes = [node_hash(nodes[at], nodes[at + 1]) for at in range(0, len(nodes), 2)]
    return nodes[0]
