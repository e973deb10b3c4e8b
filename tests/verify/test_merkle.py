"""The tree of RFC 6962: known roots, and proofs over random trees."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonne_verify.errors import NotProven
from tonne_verify.merkle import (
    EMPTY_ROOT,
    Range,
    check_consistency,
    check_inclusion,
    complete_subtrees,
    leaf_hash,
    node_hash,
)
from tonne_verify.tiles import (
    TILE_WIDTH,
    TileId,
    consistency_plan,
    entries_path,
    inclusion_plan,
    join_entries,
    parse_tile_path,
    range_plan,
    root_plan,
    split_entries,
    tile_path,
)

# Eight leaves of the reference implementation of RFC 6962, and the roots of the trees with the first 1 to 8 of them.
LEAVES = [
    bytes.fromhex(each)
    for each in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def naive_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, as the text defines it."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return node_hash(naive_root(leaves[:split]), naive_root(leaves[split:]))


def make_tiles(leaves: list[bytes]) -> dict[TileId, bytes]:
    """All tiles of a tree, as a log serves them."""
    tiles, hashes, level = {}, leaves, 0
    while hashes:
        for index, start in enumerate(range(0, len(hashes), TILE_WIDTH)):
            part = hashes[start : start + TILE_WIDTH]
            tiles[TileId(level, index, len(part))] = b"".join(part)
        full = len(hashes) // TILE_WIDTH
        hashes = [naive_root(hashes[i * TILE_WIDTH : (i + 1) * TILE_WIDTH]) for i in range(full)]
        level += 1
    return tiles


def random_leaves(size: int) -> list[bytes]:
    return [leaf_hash(hashlib.sha256(b"%d" % i).digest()) for i in range(size)]


def test_the_known_roots() -> None:
    tree, leaves = Range(), [leaf_hash(each) for each in LEAVES]
    assert tree.root() == EMPTY_ROOT == hashlib.sha256().digest()
    for size, root in enumerate(ROOTS, start=1):
        tree.append(leaves[size - 1])
        assert tree.root().hex() == root
        assert naive_root(leaves[:size]).hex() == root
        assert root_plan(size).compute(make_tiles(leaves[:size])).hex() == root


def test_every_proof_of_small_trees() -> None:
    for size in range(1, 18):
        leaves = random_leaves(size)
        tiles, root = make_tiles(leaves), naive_root(leaves)
        for index in range(size):
            hashes = inclusion_plan(index, size).compute(tiles)
            check_inclusion(leaves[index], index, size, hashes, root)
        for old in range(size + 1):
            hashes = consistency_plan(old, size).compute(tiles)
            check_consistency(old, size, hashes, naive_root(leaves[:old]), root)


# Around the borders of tiles, where mistakes are likely, and anywhere.
SIZES = st.one_of(st.sampled_from([1, 255, 256, 257, 511, 512, 513, 768]), st.integers(1, 900))


@given(size=SIZES, data=st.data())
@settings(max_examples=40, deadline=None)
def test_proofs_hold_for_what_they_prove_and_for_nothing_else(size: int, data: st.DataObject) -> None:
    leaves = random_leaves(size)
    tiles, root = make_tiles(leaves), naive_root(leaves)
    assert root_plan(size).compute(tiles) == root
    tree = Range(size, range_plan(size).compute(tiles))
    assert tree.root() == root
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    inclusion = inclusion_plan(index, size).compute(tiles)
    check_inclusion(leaves[index], index, size, inclusion, root)
    old_root = naive_root(leaves[:old])
    consistency = consistency_plan(old, size).compute(tiles)
    check_consistency(old, size, consistency, old_root, root)

    bad = bytes(32)
    for leaf, position, hashes in [
        (bad, index, inclusion),
        (leaves[index], (index + 1) % size if size > 1 else 1, inclusion),
        (leaves[index], index, [*inclusion, bad]),
        (leaves[index], index, inclusion[:-1] if inclusion else [bad]),
        *((leaves[index], index, _replaced(inclusion, at)) for at in range(len(inclusion))),
    ]:
        with pytest.raises(NotProven):
            check_inclusion(leaf, position, size, hashes, root)
    for first, last, hashes in [
        (bad, root, consistency),
        (old_root, bad, consistency),
        (old_root, root, [*consistency, bad]),
        (old_root, root, consistency[:-1] if consistency else [bad]),
        *((old_root, root, _replaced(consistency, at)) for at in range(len(consistency))),
    ]:
        with pytest.raises(NotProven):
            check_consistency(old, size, hashes, first, last)


def _replaced(hashes: list[bytes], at: int) -> list[bytes]:
    return [*hashes[:at], bytes(32), *hashes[at + 1 :]]


def test_a_smaller_tree_does_not_continue_a_larger_one() -> None:
    with pytest.raises(NotProven, match="cannot continue"):
        check_consistency(5, 4, [], bytes(32), bytes(32))
    with pytest.raises(NotProven, match="different roots"):
        check_consistency(4, 4, [], bytes(32), bytes(31) + b"1")
    with pytest.raises(NotProven, match="different roots"):
        check_consistency(0, 4, [], bytes(32), bytes(32))


@pytest.mark.parametrize(
    ("path", "tile"),
    [
        ("tile/0/000", TileId(0, 0)),
        ("tile/0/x001/234.p/5", TileId(0, 1234, 5)),
        ("tile/1/x001/x234/067", TileId(1, 1_234_067)),
        ("tile/63/999.p/255", TileId(63, 999, 255)),
    ],
)
def test_paths_of_tiles(path: str, tile: TileId) -> None:
    assert tile_path(tile) == path
    assert parse_tile_path(path) == tile
    entries = path.replace(f"tile/{tile.level}", "tile/entries")
    assert entries_path(tile.index, tile.width) == entries
    assert parse_tile_path(entries) == TileId(-1, tile.index, tile.width)


@pytest.mark.parametrize(
    "path",
    [
        "tile/0/0",
        "tile/00/000",
        "tile/64/000",
        "tile/0/x000/001",
        "tile/0/001/234",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/05",
        "tile/-1/000",
        "tile/0/٠٠٠",
        "/tile/0/000",
        "tile/0/000\n",
    ],
)
def test_other_paths_name_no_tile(path: str) -> None:
    assert parse_tile_path(path) is None


def test_the_tiles_of_the_specification() -> None:
    """A tree of 70,000 entries: the example of c2sp.org/tlog-tiles."""
    assert root_plan(70_000).tiles == {TileId(2, 0, 1), TileId(1, 1, 17), TileId(0, 273, 112)}
    assert root_plan(256).tiles == {TileId(1, 0, 1)}


def test_a_tile_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(NotProven, match=r"tile/0/000\.p/2 does not have 64 bytes"):
        root_plan(2).compute({TileId(0, 0, 2): bytes(65)})


def test_bundles_of_entries() -> None:
    entries = [b"", b"a", bytes(300)]
    assert split_entries(join_entries(entries)) == entries
    for cut in (b"\x00", b"\x00\x02a", b"\x00\x01ab"):
        with pytest.raises(NotProven, match="cut off"):
            split_entries(cut)


def test_a_proof_says_what_complete_subtrees_are() -> None:
    leaves = [leaf_hash(b"%d" % i) for i in range(21)]
    for size in range(1, 22):
        tiles = make_tiles(leaves[:size])
        for index in range(size):
            hashes = inclusion_plan(index, size).compute(tiles)
            found = complete_subtrees(leaves[index], index, size, hashes)
            assert found == {(start, width): naive_root(leaves[start : start + width]) for start, width in found}
            # On the way to the root, and beside it: all but the incomplete ones at the right edge.
            assert {(index, 1), (index >> 1 << 1, 2)} - {(size - 1, 2)} <= {*found}
            assert all(width.bit_count() == 1 and start % width == 0 for start, width in found)
