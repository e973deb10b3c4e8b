"""RFC 6962 written down as its recursive definitions: slow, and obviously right. Tests compare with it."""

import hashlib
from collections.abc import Sequence


def tree_root(entries: Sequence[bytes]) -> bytes:
    """MTH of section 2.1."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    split = _largest_power_below(len(entries))
    return hashlib.sha256(b"\x01" + tree_root(entries[:split]) + tree_root(entries[split:])).digest()


def inclusion_proof(index: int, entries: Sequence[bytes]) -> list[bytes]:
    """PATH of section 2.1.1."""
    if len(entries) == 1:
        return []
    split = _largest_power_below(len(entries))
    if index < split:
        return [*inclusion_proof(index, entries[:split]), tree_root(entries[split:])]
    return [*inclusion_proof(index - split, entries[split:]), tree_root(entries[:split])]


def consistency_proof(old_size: int, entries: Sequence[bytes]) -> list[bytes]:
    """PROOF of section 2.1.2."""
    return _subproof(old_size, entries, is_known=True) if 0 < old_size < len(entries) else []


def _subproof(old_size: int, entries: Sequence[bytes], *, is_known: bool) -> list[bytes]:
    if old_size == len(entries):
        return [] if is_known else [tree_root(entries)]
    split = _largest_power_below(len(entries))
    if old_size <= split:
        return [*_subproof(old_size, entries[:split], is_known=is_known), tree_root(entries[split:])]
    return [*_subproof(old_size - split, entries[split:], is_known=False), tree_root(entries[:split])]


def _largest_power_below(count: int) -> int:
    return 1 << (count - 1).bit_length() - 1
