"""The Merkle tree of RFC 6962 with SHA-256: hashes, and the two kinds of proof."""

import hashlib
from collections.abc import Iterable, Sequence

from tonne_verify.errors import NotProven

HASH_SIZE = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def check_inclusion(leaf: bytes, index: int, size: int, hashes: Sequence[bytes], root: bytes) -> None:
    """Raises NotProven unless the leaf with this hash is at `index` of the tree with this size and root."""
    if not 0 <= index < size:
        raise NotProven(f"The proof is for entry {index}, but the tree has {size} entries.")
    _check_lengths(hashes)
    remaining, node, last = list(reversed(hashes)), leaf, size - 1
    while last:
        if index & 1 or index == last:
            node = node_hash(_next(remaining), node)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            node = node_hash(node, _next(remaining))
        index, last = index >> 1, last >> 1
    if remaining:
        raise NotProven("The inclusion proof has too many hashes.")
    if node != root:
        raise NotProven("The inclusion proof leads to another root than that of the checkpoint.")


def complete_subtrees(leaf: bytes, index: int, size: int, hashes: Sequence[bytes]) -> dict[tuple[int, int], bytes]:
    """What a checked inclusion proof says of complete subtrees, by their first entry and their number of entries.

    They are the same in every larger tree of the same log.
    """
    splits, start, end = [], 0, size
    while end - start > 1:
        middle = start + (1 << (end - start - 1).bit_length() - 1)
        splits.append((start, middle, end))
        start, end = (start, middle) if index < middle else (middle, end)
    node, found = leaf, {(index, 1): leaf}
    for (start, middle, end), sibling in zip(reversed(splits), hashes, strict=True):
        is_left = index < middle
        beside = (middle, end) if is_left else (start, middle)
        node = node_hash(node, sibling) if is_left else node_hash(sibling, node)
        found |= {(beside[0], beside[1] - beside[0]): sibling, (start, end - start): node}
    return {each: found[each] for each in found if each[1].bit_count() == 1}


def check_consistency(old_size: int, new_size: int, hashes: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Raises NotProven unless the tree of `new_size` begins with the tree of `old_size`."""
    if not 0 <= old_size <= new_size:
        raise NotProven(f"A tree of {new_size} entries cannot continue a tree of {old_size} entries.")
    _check_lengths(hashes)
    if old_size in {0, new_size}:
        if hashes:
            raise NotProven("The consistency proof has too many hashes.")
        if old_root != (EMPTY_ROOT if old_size == 0 and new_size else new_root):
            raise NotProven(f"Two trees of {old_size} entries have different roots.")
        return
    remaining = list(reversed(hashes))
    index, last = old_size - 1, new_size - 1
    while index & 1:
        index, last = index >> 1, last >> 1
    # If the old tree is a complete subtree, its root is the first hash, and the proof leaves it out.
    old = new = _next(remaining) if index else old_root
    while last:
        if index & 1 or index == last:
            sibling = _next(remaining)
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            new = node_hash(new, _next(remaining))
        index, last = index >> 1, last >> 1
    if remaining:
        raise NotProven("The consistency proof has too many hashes.")
    if old != old_root:
        raise NotProven(f"The first {old_size} entries of the new tree are not those of the old tree.")
    if new != new_root:
        raise NotProven("The consistency proof leads to another root than that of the new tree.")


class Range:
    """A compact range: the roots of the complete subtrees from the left, largest first. Appending costs O(log n)."""

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        self.size = size
        self.hashes = list(hashes)
        if len(self.hashes) != size.bit_count():
            raise NotProven(f"A tree of {size} entries has {size.bit_count()} complete subtrees.")

    def append(self, leaf: bytes) -> None:
        """Appends a leaf hash."""
        node, bits = leaf, self.size
        while bits & 1:
            node = node_hash(self.hashes.pop(), node)
            bits >>= 1
        self.hashes.append(node)
        self.size += 1

    def root(self) -> bytes:
        return fold(self.hashes) if self.hashes else EMPTY_ROOT


def fold(hashes: Sequence[bytes]) -> bytes:
    """The root above complete subtrees that follow each other, largest first."""
    root = hashes[-1]
    for left in reversed(hashes[:-1]):
        root = node_hash(left, root)
    return root


def _next(remaining: list[bytes]) -> bytes:
    if not remaining:
        raise NotProven("The proof has too few hashes.")
    return remaining.pop()


def _check_lengths(hashes: Sequence[bytes]) -> None:
    if any(len(each) != HASH_SIZE for each in hashes):
        raise NotProven("A hash of the proof does not have 32 bytes.")
