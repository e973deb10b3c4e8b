"""CPU time of inclusion proofs."""

import random
import sys
import time

from bench.environment import Environment
from bench.log.probe import probing
from bench.pace import LogPace
from bench.report import Goal, NotMeasured, Result
from bench.tenants import MODE
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.keys.signing.keys import SigningKeys
from tonne.platform.values.context import utc_now
from tonne.supply.certificates.proofs.read_proofs import Evidence, find_evidence
from tonne.supply.transparency.log_keys import LogKeys
from tonne.supply.transparency.publish_checkpoints import PublishCheckpoints
from tonne_verify.merkle import check_inclusion, leaf_hash
from tonne_verify.notes import Checkpoint, split_note
from tonne_verify.openings import Opening
from tonne_verify.proofs import TlogProof

LIMIT_MS = 2.0
GOAL = Goal(reach=1.0, at_most=True)
WARM_UP = 20
_RNG = random.Random(20261117)
LOGGED = """
SELECT subject FROM log_statements WHERE mode = $1 AND kind = 'certificate.issued' AND log_id IS NOT NULL
ORDER BY position
"""


async def publish(environment: Environment) -> list[str]:
    """Publish a checkpoint of all that was appended. Returns the numbers of the certificates in it."""
    async with probing(environment) as probe:
        box = SecretBox.from_settings(probe.settings)
        keys = LogKeys(SigningKeys(probe.database, box, probe.settings, utc_now))
        started = time.perf_counter()
        if not await PublishCheckpoints(probe.database, utc_now, probe.settings, keys).run_once():
            raise NotMeasured("No checkpoint was published.")
        print(f"The checkpoint took {(time.perf_counter() - started) * 1000:.0f} ms.", file=sys.stderr)
        async with probe.database.connection() as connection:
            return [row["subject"] for row in await connection.fetch(LOGGED, MODE)]


async def proofs(environment: Environment, pace: LogPace, numbers: list[str]) -> list[Result]:
    """Proofs of random certificates: each has an inclusion proof of its own and of each of its retirements."""
    chosen = _RNG.sample(numbers, min(len(numbers), pace.certificates + WARM_UP))
    async with probing(environment) as probe, probe.database.connection() as connection:
        for number in chosen[:WARM_UP]:
            _require_proven(await find_evidence(connection, MODE, number))
        before_s, proven = await probe.cpu_s(), 0
        for number in chosen[WARM_UP:]:
            evidence = await find_evidence(connection, MODE, number)
            proven += len(evidence.all) if evidence else 0
        cpu_ms = (await probe.cpu_s() - before_s) * 1000
    if proven < len(chosen) - WARM_UP:
        raise NotMeasured(f"{len(chosen) - WARM_UP} certificates have only {proven} proofs.")
    return [
        Result("proof_cpu", cpu_ms / proven, "ms", LIMIT_MS, GOAL),
        Result("evidence_cpu", cpu_ms / (len(chosen) - WARM_UP), "ms", LIMIT_MS),
    ]


def _require_proven(evidence: Evidence | None) -> None:
    if evidence is None:
        raise NotMeasured("A certificate has no proof.")
    for each in evidence.all:
        proof = TlogProof.parse(each["proof"])
        head = Checkpoint.parse(split_note(proof.checkpoint)[0])
        leaf = leaf_hash(Opening.from_json(each).commitment())
        check_inclusion(leaf, proof.index, head.size, proof.hashes, head.root)
