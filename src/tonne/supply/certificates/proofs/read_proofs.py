"""Proofs from the tiles of a log: that a certificate is in it, and that the log was only ever appended to."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.supply.certificates.proofs.evidence_store import CoveredStatement, read_statements_any_account
from tonne.supply.transparency.tile_store import read_tiles
from tonne_verify.openings import Opening, StatementKind
from tonne_verify.proofs import TlogProof
from tonne_verify.tiles import TileId, consistency_plan, inclusion_plan

Json = dict[str, Any]
# What a line of a certificate has in common with the statement about its retirement.
_SAME = ("registry", "project_id", "vintage", "serial_range", "retired_on")


class Evidence(msgspec.Struct, frozen=True):
    """Openings with their inclusion proofs, as objects of a verifiable credential.

    `issued` has the certificate as it was issued, then the retirements of its lines. It changes only if a person is
    erased or the log is closed. `changes` has what became of it.
    """

    issued: list[Json]
    changes: list[Json] = msgspec.field(default_factory=list)

    @property
    def all(self) -> list[Json]:
        return [*self.issued, *self.changes]


async def find_evidence(connection: Connection, mode: Mode, number: str) -> Evidence | None:
    """What proves a certificate; None while a checkpoint does not cover it and its retirements.

    Knowing the number is the permission to read it.
    """
    covered, waiting = await read_statements_any_account(connection, mode, number)
    if waiting & {StatementKind.ISSUED, StatementKind.RETIREMENT} or not covered:
        return None
    entries = await _prove(connection, covered)
    (issued,) = (each for each in entries if each["statement"]["kind"] == StatementKind.ISSUED)
    retirements = {
        _key(each["statement"]["facts"]): each
        for each in entries
        if each["statement"]["kind"] == StatementKind.RETIREMENT
    }
    # An order line may share a unit with another one: each retirement is there once, in the order of the lines.
    stated = dict.fromkeys(_key(line) for line in issued["statement"]["facts"]["lines"])
    changed = {StatementKind.REPLACED, StatementKind.WITHDRAWN}
    return Evidence(
        [issued, *(retirements[key] for key in stated if key in retirements)],
        [each for each in entries if each["statement"]["kind"] in changed],
    )


def _key(facts: Json) -> tuple[Any, ...]:
    return tuple(facts[name] for name in _SAME)


async def _prove(connection: Connection, covered: Sequence[CoveredStatement]) -> list[Json]:
    """Each with its inclusion proof. The tiles of all proofs are read at once."""
    plans = [inclusion_plan(each.position, each.checkpoint_size) for each in covered]
    requested: dict[int, set[TileId]] = {}
    for each, plan in zip(covered, plans, strict=True):
        requested.setdefault(each.log_id, set()).update(plan.tiles)
    tiles = {log_id: await read_tiles(connection, log_id, needed) for log_id, needed in requested.items()}
    return [_entry(each, plan.compute(tiles[each.log_id])) for each, plan in zip(covered, plans, strict=True)]


def _entry(covered: CoveredStatement, hashes: Sequence[bytes]) -> Json:
    names = None if covered.names is None else msgspec.json.decode(covered.names)
    opening = Opening(msgspec.json.decode(covered.statement), covered.salt, names, covered.names_salt)
    proof = TlogProof(covered.position, tuple(hashes), covered.note)
    return {"type": "TransparencyLogEntry", **opening.to_json(), "proof": proof.format()}


async def prove_consistency(connection: Connection, log_id: int, old_size: int, new_size: int) -> list[bytes]:
    """The hashes of the proof that the tree of `new_size` continues that of `old_size`."""
    plan = consistency_plan(old_size, new_size)
    return plan.compute(await read_tiles(connection, log_id, plan.tiles))
