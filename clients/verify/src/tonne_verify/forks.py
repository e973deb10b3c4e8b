"""Forks: a log has signed two trees that do not agree. The evidence convinces anybody who knows the key of the log.

A monitor compares two checkpoints by the tiles of the larger tree. Without the tiles, two inclusion proofs may do: what
they say of the same complete subtree must be the same.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tonne_verify.base64_strict import decode_base64, encode_base64
from tonne_verify.errors import NotProven
from tonne_verify.evidence import ProvenEntry
from tonne_verify.files import write_text
from tonne_verify.log_reader import LogReader
from tonne_verify.merkle import check_consistency, check_inclusion, complete_subtrees, fold
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
    evidence = _evidence(first, second, keys)
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


def _evidence(first: str, second: str, keys: Iterable[VerifierKey]) -> dict[str, Any]:
    return {
        "format": FORK_FORMAT,
        "origin": _head(first).origin,
        "keys": [key.vkey for key in keys],
        "first": first,
        "second": second,
    }


def find_forks(entries: Iterable[ProvenEntry]) -> Iterator[dict[str, Any]]:
    """Evidence of one fork of each log whose proofs contradict each other."""
    by_origin: dict[str, list[ProvenEntry]] = {}
    for entry in entries:
        by_origin.setdefault(entry.log.origin, []).append(entry)
    for found in by_origin.values():
        # Proofs that lead to the same root cannot contradict each other.
        if len({(each.checkpoint.size, each.checkpoint.root) for each in found}) > 1:
            evidence = _find_contradiction(found)
            if evidence is not None:
                yield evidence


def _find_contradiction(entries: Iterable[ProvenEntry]) -> dict[str, Any] | None:
    seen: dict[tuple[int, int], tuple[bytes, ProvenEntry]] = {}
    for entry in entries:
        nodes = _nodes(entry.leaf, entry.index, entry.proof.hashes, entry.checkpoint)
        for place, node in nodes.items():
            known, other = seen.setdefault(place, (node, entry))
            if known != node:
                return _contradiction(*sorted((other, entry), key=lambda each: each.checkpoint.size))
    return None


def _nodes(leaf: bytes, index: int, hashes: Sequence[bytes], head: Checkpoint) -> dict[tuple[int, int], bytes]:
    """What an inclusion proof says of subtrees that another tree may have, too."""
    return {**complete_subtrees(leaf, index, head.size, hashes), (0, head.size): head.root}


def _contradiction(first: ProvenEntry, second: ProvenEntry) -> dict[str, Any]:
    evidence = _evidence(first.proof.checkpoint, second.proof.checkpoint, first.log.keys)
    if first.checkpoint.size < second.checkpoint.size:
        evidence["entries"] = [
            {
                "leaf": encode_base64(each.leaf),
                "index": each.index,
                "hashes": [encode_base64(hashed) for hashed in each.proof.hashes],
            }
            for each in (first, second)
        ]
    return evidence


def keep_fork(evidence: Mapping[str, Any], folder: Path) -> str:
    """Writes the evidence to a file in the folder. Names the fork and the file."""
    sentence = describe_fork(evidence)
    try:
        check_fork(evidence, [VerifierKey.parse(each) for each in evidence["keys"]])
        text = json.dumps(evidence, indent=2, ensure_ascii=False) + "\n"
        path = folder / f"tonne-fork-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        write_text(path, text)
    except NotProven as error:
        return f"{sentence} Keep the files that were checked: the evidence was not written. {error}"
    return f"{sentence} The evidence is in {path}: publish it."


def check_fork(evidence: Mapping[str, Any], keys: Iterable[VerifierKey]) -> str:
    """Names the two heads. Raises NotProven unless a key has signed both, and they do not agree."""
    keys = list(keys)
    try:
        small, large = (Checkpoint.parse(open_note(evidence[name], keys).text) for name in ("first", "second"))
        if small.origin != large.origin:
            raise NotProven("The two checkpoints are those of two logs.")
        root = large.root
        if "entries" in evidence:
            if _agree(evidence["entries"], small, large):
                raise NotProven("The two checkpoints may agree: this is no proof of a fork.")
            return describe_fork(evidence)
        if small.size < large.size:
            root = decode_base64(evidence["root"])
            hashes = [decode_base64(each) for each in evidence["hashes"]]
            check_consistency(small.size, large.size, hashes, root, large.root)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise NotProven("The evidence of a fork is incomplete.") from None
    if root == small.root or small.size > large.size or small.size == 0:
        raise NotProven("The two checkpoints agree: this is no fork.")
    return describe_fork(evidence)


def _agree(entries: Any, *checkpoints: Checkpoint) -> bool:
    """Whether the entries, each of which is in one of the trees, say the same of all complete subtrees."""
    found: list[dict[tuple[int, int], bytes]] = []
    for each, checkpoint in zip(entries, checkpoints, strict=True):
        leaf, hashes = decode_base64(each["leaf"]), [decode_base64(hashed) for hashed in each["hashes"]]
        check_inclusion(leaf, each["index"], checkpoint.size, hashes, checkpoint.root)
        found.append(_nodes(leaf, each["index"], hashes, checkpoint))
    first, second = found
    return all(second.get(each, node) == node for each, node in first.items())


def describe_fork(evidence: Mapping[str, Any]) -> str:
    heads = " and ".join(
        f"{head.size} entries with the root {encode_base64(head.root)}"
        for head in (_head(evidence["first"]), _head(evidence["second"]))
    )
    return f"FORK: {evidence['origin']} has signed two trees that do not agree: {heads}."


def _head(note: str) -> Checkpoint:
    return Checkpoint.parse(split_note(note)[0])
