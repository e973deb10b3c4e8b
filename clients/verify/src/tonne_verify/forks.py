"""Forks: a log has signed two trees that do not agree. The evidence convinces anybody who knows the key of the log."""

from collections.abc import Iterable, Mapping
from typing import Any

from tonne_verify.base64_strict import decode_base64, encode_base64
from tonne_verify.errors import NotProven
from tonne_verify.log_reader import LogReader
from tonne_verify.merkle import check_consistency, fold
from tonne_verify.notes import Checkpoint, VerifierKey, open_note, split_note
from tonne_verify.tiles import consistency_plan, range_plan

FORK_FORMAT = "tonne-fork/1"


def find_fork(reader: LogReader, one: str, other: str, keys: Iterable[VerifierKey]) -> dict[str, Any] | None:
    """Evidence, if two signed checkpoints of a log do not agree; None if the larger continues the smaller.

    Raises NotProven if it cannot be known, because the tiles of the larger tree are missing or wrong.
    """
    keys = list(keys)
    first, second = sorted((one, other), key=lambda note: _head(note).size)
    small, large = _head(first), _head(second)
    evidence: dict[str, Any] = {
        "format": FORK_FORMAT,
        "origin": small.origin,
        "keys": [key.vkey for key in keys],
        "first": first,
        "second": second,
    }
    if small.size < large.size and small.size:
        # What the second tree begins with, and the proof that it does.
        begin, proof = range_plan(small.size, large.size), consistency_plan(small.size, large.size)
        tiles = reader.tiles(begin.tiles | proof.tiles)
        root, hashes = fold(begin.compute(tiles)), proof.compute(tiles)
        check_consistency(small.size, large.size, hashes, root, large.root)
        if root == small.root:
            return None
        evidence |= {"root": encode_base64(root), "hashes": [encode_base64(each) for each in hashes]}
    elif small.size < large.size or small.root == large.root:
        return None
    # A head whose key leaked may be unsigned: that is no evidence for others.
    check_fork(evidence, keys)
    return evidence


def check_fork(evidence: Mapping[str, Any], keys: Iterable[VerifierKey]) -> str:
    """Names the two heads. Raises NotProven unless a key has signed both, and they do not agree."""
    keys = list(keys)
    try:
        small, large = (Checkpoint.parse(open_note(evidence[name], keys).text) for name in ("first", "second"))
        if small.origin != large.origin:
            raise NotProven("The two checkpoints are those of two logs.")
        root = large.root
        if small.size < large.size:
            root = decode_base64(evidence["root"])
            hashes = [decode_base64(each) for each in evidence["hashes"]]
            check_consistency(small.size, large.size, hashes, root, large.root)
    except (KeyError, TypeError, AttributeError):
        raise NotProven("The evidence of a fork is incomplete.") from None
    if root == small.root or small.size > large.size or small.size == 0:
        raise NotProven("The two checkpoints agree: this is no fork.")
    return describe_fork(evidence)


def describe_fork(evidence: Mapping[str, Any]) -> str:
    heads = " and ".join(
        f"{head.size} entries with the root {encode_base64(head.root)}"
        for head in (_head(evidence["first"]), _head(evidence["second"]))
    )
    return f"FORK: {evidence['origin']} has signed two trees that do not agree: {heads}."


def _head(note: str) -> Checkpoint:
    return Checkpoint.parse(split_note(note)[0])
