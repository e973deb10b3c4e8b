"""Witnesses cosign checkpoints before they are published, so that nobody can be shown another log than the others.

A witness that does not respond delays one checkpoint by at most 5 seconds. From then on it is asked in the background,
with a back-off, until it cosigns again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import ClassVar

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.settings.witness_settings import WitnessAddress
from tonne.platform.values.context import Clock
from tonne.supply.transparency import witness_store
from tonne.supply.transparency.witness_client import Prove, WitnessClient
from tonne.supply.transparency.witness_outcomes import Cosigned, NotCosigned
from tonne_verify.notes import Checkpoint, split_note

FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 600.0
# Longer than it takes to ask: meanwhile no other worker asks the same witness.
LEASE = timedelta(seconds=30)

# The hashes of the consistency proof of a log, from the smaller size to the larger.
ConsistencyProof = Callable[[Connection, int, int, int], Awaitable[Sequence[bytes]]]

_log = structlog.get_logger()


class Witnesses:
    # A checkpoint covers what happened within a minute.
    EVERY_S: ClassVar[int] = 2

    def __init__(self, database: Database, settings: Settings, clock: Clock, prove: ConsistencyProof) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._prove = prove
        self._witnesses = settings.witnesses
        self._opened: WitnessClient | None = None

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def cosign(self, log_id: int, note: str) -> str:
        """The signed checkpoint with the cosignatures that arrived within 5 s. Failing witnesses are not asked.

        Call it outside of a transaction. What each witness has cosigned is stored before this returns.
        """
        async with self._database.transaction() as tx:
            states = await witness_store.read_states(tx, log_id)
            if states.keys() - {witness.key.vkey for witness in self._witnesses}:
                await witness_store.forget_others(tx, log_id, [witness.key.vkey for witness in self._witnesses])
        asked = []
        for witness in self._witnesses:
            state = states.get(witness.key.vkey)
            if state is None or state.next_attempt_at is None:
                asked.append(self._ask(log_id, note, witness, 0 if state is None else state.size))
        return note + "".join(line for line in await asyncio.gather(*asked) if line)

    async def run_once(self) -> bool:
        """A job: ask failing and new witnesses for the last checkpoint. It then is served with their cosignatures."""
        if not self._witnesses:
            return False
        by_vkey = {witness.key.vkey: witness for witness in self._witnesses}
        now = self._clock()
        async with self._database.transaction() as tx:
            latest = {each.log_id: each for each in await witness_store.read_latest_checkpoints(tx)}
            await witness_store.add_witnesses(tx, list(latest), list(by_vkey), now)
            due = await witness_store.claim_due(tx, list(latest), list(by_vkey), now=now, until=now + LEASE)
        asked = [self._ask_late(latest[log_id], by_vkey[vkey], size) for log_id, vkey, size in due]
        await asyncio.gather(*asked)
        return bool(asked)

    async def _ask_late(self, latest: witness_store.LatestCheckpoint, witness: WitnessAddress, known_size: int) -> None:
        await self._ask(latest.log_id, latest.note, witness, known_size)

    async def _ask(self, log_id: int, note: str, witness: WitnessAddress, known_size: int) -> str | None:
        """Ask one witness and store the outcome. Returns the cosignature."""
        size = Checkpoint.parse(split_note(note)[0]).size
        prove: Prove = partial(self._prove_from, log_id, size)
        outcome = await self._client.ask(witness, note, known_size, prove)
        async with self._database.transaction() as tx:
            if isinstance(outcome, Cosigned):
                await witness_store.record_cosignature(tx, log_id, witness.key.vkey, outcome, self._clock())
                return outcome.line
            await self._record_failure(tx, log_id, witness, outcome)
        event = _log.error if outcome.problem.is_alarm else _log.warning
        event(
            "witness_has_other_tree" if outcome.problem.is_alarm else "witness_did_not_cosign",
            witness=witness.key.name,
            log_id=log_id,
            size=size,
            problem=outcome.problem,
            detail=outcome.detail,
        )
        return None

    async def _record_failure(self, tx: Connection, log_id: int, witness: WitnessAddress, failed: NotCosigned) -> None:
        state = (await witness_store.read_states(tx, log_id)).get(witness.key.vkey)
        failures = 0 if state is None else state.failures
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
        now = self._clock()
        await witness_store.record_failure(
            tx, log_id, witness.key.vkey, failed, now=now, next_attempt_at=now + timedelta(seconds=pause_s)
        )

    async def _prove_from(self, log_id: int, size: int, old_size: int) -> Sequence[bytes]:
        return await self._database.run(self._prove, log_id, old_size, size)

    @property
    def _client(self) -> WitnessClient:
        """Opened at first use: it belongs to the running loop."""
        if self._opened is None:
            self._opened = WitnessClient(self._settings, self._clock)
        return self._opened
