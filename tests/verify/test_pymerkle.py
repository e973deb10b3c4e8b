"""Roots and proofs against pymerkle, an implementation that we did not write."""

import hashlib

from pymerkle import InmemoryTree, verify_consistency, verify_inclusion

from tonne_verify.merkle import Range, check_consistency, check_inclusion, leaf_hash
from tonne_verify.tiles import TILE_HEIGHT, TILE_WIDTH, TileId, consistency_plan, inclusion_plan, root_plan, tile_of

# All small sizes, and those around the borders of tiles.
SIZES = (*range(1, 20), 255, 256, 257, 300, 511, 512, 513, 700)
ENTRIES = [hashlib.sha256(bytes([number % 256, number // 256])).digest() for number in range(max(SIZES))]


def _tiles(size: int) -> dict[TileId, bytes]:
    """All tiles of a tree, made of whole subtrees of 256 hashes."""
    hashes = [leaf_hash(entry) for entry in ENTRIES[:size]]
    tiles = {}
    for level in range(3):
        for index in range(-(-len(hashes) // TILE_WIDTH)):
            tiles[tile_of(level, index, size)] = b"".join(hashes[index * TILE_WIDTH : (index + 1) * TILE_WIDTH])
        full = [hashes[at : at + TILE_WIDTH] for at in range(0, len(hashes) // TILE_WIDTH * TILE_WIDTH, TILE_WIDTH)]
        hashes = [_root(each) for each in full]
        assert len(hashes) == size >> TILE_HEIGHT * (level + 1)
    return tiles


def _root(hashes: list[bytes]) -> bytes:
    tree = Range()
    for each in hashes:
        tree.append(each)
    return tree.root()


def test_roots_and_proofs_are_those_of_pymerkle() -> None:
    other = InmemoryTree(algorithm="sha256")
    for entry in ENTRIES:
        other.append_entry(entry)
    for size in SIZES:
        tiles, root = _tiles(size), other.get_root(size)
        assert _root([leaf_hash(entry) for entry in ENTRIES[:size]]) == root
        assert root_plan(size).compute(tiles) == root
        for index in {0, size // 3, size // 2, 2 * size // 3, size - 1}:
            hashes = inclusion_plan(index, size).compute(tiles)
            # Its indices start at 1, and its path with the leaf itself.
            theirs = other.prove_inclusion(index + 1, size)
            assert theirs.path == [leaf_hash(ENTRIES[index]), *hashes]
            verify_inclusion(leaf_hash(ENTRIES[index]), root, theirs)
            check_inclusion(leaf_hash(ENTRIES[index]), index, size, hashes, root)
        for old_size in {1, size // 3 + 1, size // 2 + 1, size - size // 5, size}:
            old_root = other.get_root(old_size)
            hashes = consistency_plan(old_size, size).compute(tiles)
            check_consistency(old_size, size, hashes, old_root, root)
            # Its consistency proofs have another format. Go's implementation checks ours, in an integration test.
            verify_consistency(old_root, root, other.prove_consistency(old_size, size))
