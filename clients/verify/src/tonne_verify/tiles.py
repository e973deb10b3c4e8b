"""Tiles (c2sp.org/tlog-tiles): their paths, and which of them a proof needs.

A plan names the tiles it needs and computes its result from them. The server reads them from its database, the
monitor over HTTP.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tonne_verify.errors import NotProven
from tonne_verify.merkle import EMPTY_ROOT, HASH_SIZE, fold, node_hash

TILE_WIDTH = 256
TILE_HEIGHT = 8
MAX_LEVEL = 63
# Positions above this are refused: they occur in no real log.
MAX_SIZE = 1 << 63


@dataclass(frozen=True, slots=True, order=True)
class TileId:
    level: int
    index: int
    width: int = TILE_WIDTH


def tile_path(tile: TileId) -> str:
    return f"tile/{tile.level}/{_number_path(tile.index, tile.width)}"


def entries_path(index: int, width: int = TILE_WIDTH) -> str:
    return f"tile/entries/{_number_path(index, width)}"


def _number_path(index: int, width: int) -> str:
    parts = [f"{index % 1000:03}"]
    while index := index // 1000:
        parts.append(f"x{index % 1000:03}")
    path = "/".join(reversed(parts))
    return path if width == TILE_WIDTH else f"{path}.p/{width}"


PATH = re.compile(
    r"tile/(?P<level>entries|0|[1-9][0-9]?)/(?P<index>(?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/(?P<width>[1-9][0-9]{0,2}))?",
    re.ASCII,
)


def parse_tile_path(path: str) -> TileId | None:
    """The tile of a path such as `tile/0/x001/234.p/5`, with level -1 for entries. None if the path names no tile."""
    match = PATH.fullmatch(path)
    if match is None:
        return None
    level = -1 if match["level"] == "entries" else int(match["level"])
    index = int(match["index"].replace("x", "").replace("/", ""))
    width = int(match["width"] or TILE_WIDTH)
    if level > MAX_LEVEL or (match["width"] and width >= TILE_WIDTH):
        return None
    # Leading groups of zeros would give one tile several paths.
    return TileId(level, index, width) if match["index"] == _number_path(index, TILE_WIDTH) else None


def tile_of(level: int, index: int, size: int) -> TileId:
    """The tile at this place in a tree of this size: full, or as wide as the tree has hashes."""
    hashes = (size >> (TILE_HEIGHT * level)) - index * TILE_WIDTH
    if hashes <= 0:
        raise NotProven(f"A tree of {size} entries has no tile {index} at level {level}.")
    return TileId(level, index, min(hashes, TILE_WIDTH))


# Proofs of neighbouring entries have most of their subtrees in common.
@lru_cache(maxsize=1024)
def subtree_root(hashes: bytes) -> bytes:
    """The root above hashes of one level, whose number is a power of two."""
    nodes = [hashes[at : at + HASH_SIZE] for at in range(0, len(hashes), HASH_SIZE)]
    while len(nodes) > 1:
        nodes = [node_hash(nodes[i], nodes[i + 1]) for i in range(0, len(nodes), 2)]
    return nodes[0]


@dataclass(frozen=True, slots=True)
class _Subtree:
    """A complete subtree of 2**height leaves, the `index`-th of its height."""

    height: int
    index: int

    def tile(self, size: int) -> TileId:
        return tile_of(self.height // TILE_HEIGHT, self._first() // TILE_WIDTH, size)

    def hash(self, tile: bytes) -> bytes:
        start = self._first() % TILE_WIDTH * HASH_SIZE
        end = start + (HASH_SIZE << self.height % TILE_HEIGHT)
        return subtree_root(tile[start:end])

    def _first(self) -> int:
        return self.index << self.height % TILE_HEIGHT


class HashesPlan:
    """Hashes of parts of a tree, each of them the root above one or more complete subtrees."""

    def __init__(self, size: int, parts: Sequence[Sequence[_Subtree]]) -> None:
        self._size = size
        self._parts = parts
        self.tiles = {subtree.tile(size) for part in parts for subtree in part}

    def compute(self, tiles: Mapping[TileId, bytes]) -> list[bytes]:
        for tile in self.tiles:
            if len(tiles[tile]) != tile.width * HASH_SIZE:
                raise NotProven(f"The tile {tile_path(tile)} does not have {tile.width * HASH_SIZE} bytes.")
        return [fold([subtree.hash(tiles[subtree.tile(self._size)]) for subtree in part]) for part in self._parts]


class RootPlan:
    """The root of a tree."""

    def __init__(self, size: int) -> None:
        self._subtrees = range_plan(size)
        self.tiles = self._subtrees.tiles

    def compute(self, tiles: Mapping[TileId, bytes]) -> bytes:
        hashes = self._subtrees.compute(tiles)
        return fold(hashes) if hashes else EMPTY_ROOT


def inclusion_plan(index: int, size: int) -> HashesPlan:
    """The hashes of the inclusion proof of an entry, from the leaf's sibling to the root's child."""
    if not 0 <= index < size <= MAX_SIZE:
        raise NotProven(f"A tree of {size} entries has no entry {index}.")
    parts: list[Sequence[_Subtree]] = []
    low, high = 0, size
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            parts.append(_subtrees(middle, high))
            high = middle
        else:
            parts.append(_subtrees(low, middle))
            low = middle
    return HashesPlan(size, parts[::-1])


def consistency_plan(old: int, new: int) -> HashesPlan:
    """The hashes of the proof that the tree of size `new` continues the tree of size `old` (RFC 6962, 2.1.2)."""
    if not 0 <= old <= new <= MAX_SIZE:
        raise NotProven(f"A tree of {new} entries cannot continue a tree of {old} entries.")
    parts: list[Sequence[_Subtree]] = []
    low, high = 0, new
    while 0 < old < high:
        middle = low + _split(high - low)
        if old <= middle:
            parts.append(_subtrees(middle, high))
            high = middle
        else:
            parts.append(_subtrees(low, middle))
            low = middle
    # The verifier knows the hash of the old tree itself.
    if low > 0:
        parts.append(_subtrees(low, high))
    return HashesPlan(new, parts[::-1])


def range_plan(size: int, tree_size: int | None = None) -> HashesPlan:
    """The hashes of `merkle.Range`: the complete subtrees of a tree, from the tiles of one that has grown since."""
    return HashesPlan(size if tree_size is None else tree_size, [[subtree] for subtree in _subtrees(0, size)])


def root_plan(size: int) -> RootPlan:
    return RootPlan(size)


def _split(width: int) -> int:
    """The largest power of two below the width."""
    return 1 << (width - 1).bit_length() - 1


def _subtrees(low: int, high: int) -> list[_Subtree]:
    """The complete subtrees that cover the leaves from `low` to `high`, largest first. `low` is aligned."""
    found = []
    while low < high:
        height = (high - low).bit_length() - 1
        found.append(_Subtree(height, low >> height))
        low += 1 << height
    return found


def split_entries(bundle: bytes) -> list[bytes]:
    """The entries of a bundle: each with its length as a big-endian uint16 before it."""
    entries, at = [], 0
    while at < len(bundle):
        length = int.from_bytes(bundle[at : at + 2])
        entry = bundle[at + 2 : at + 2 + length]
        if at + 2 > len(bundle) or len(entry) != length:
            raise NotProven("A bundle of entries is cut off.")
        entries.append(entry)
        at += 2 + length
    return entries


def join_entries(entries: Sequence[bytes]) -> bytes:
    return b"".join(len(entry).to_bytes(2) + entry for entry in entries)
