"""Which events a turn sends next. The state of the lease decides how they are read."""

import asyncio
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from tonne.channels.webhooks.delivery import batch_store, parked_store
from tonne.channels.webhooks.delivery.outcomes import Delivered, RefusedAccount, Retry, SendOutcome
from tonne.channels.webhooks.delivery.schedule import (
    BATCHES_PER_CLAIM,
    MAX_BATCH,
    MAX_UNANSWERED,
    PROBES,
    REFUSALS_BEFORE_PARKING,
)
from tonne.channels.webhooks.delivery.settle import retry_until
from tonne.channels.webhooks.delivery.turn import BatchReader, Turn
from tonne.channels.webhooks.model import EventBatch, Lease, ParkedAccount, Probe
from tonne.platform.db.database import Connection
from tonne.platform.values.context import replace

# Deliver the waiting events of parked accounts, each account with a back-off of its own.

# With events waiting in the main stream, no further request for a parked account is sent after this time.
MAIN_WAITS_S = 0.5


class ReadParkedAccount(Struct):
    """One event, then twice as many after each success, until the main stream has waited for long enough."""

    turn: Turn
    account: ParkedAccount
    limit: int = 1
    batches: int = 0
    started_at: float = field(default_factory=time.monotonic)

    @staticmethod
    async def find(turn: Turn) -> "ReadParkedAccount | None":
        """Sends to the due account that waits longest: the main stream waits for its response."""
        renewed = None if turn.stopping.is_set() else await turn.settlement.renew(turn.lease)
        if renewed is None:
            return None
        turn.lease = renewed
        account = await turn.database.run(parked_store.find_due, renewed)
        return None if account is None else ReadParkedAccount(turn, account)

    async def read(self) -> EventBatch | None:
        if self.batches == BATCHES_PER_CLAIM or self.turn.stopping.is_set():
            return None
        self.batches += 1
        account, lease = self.account, self.turn.lease
        batch = await self.turn.database.run(
            batch_store.read_parked, lease, account.account_id, account.position, self.limit
        )
        return batch if batch.positions else None

    async def settle(self, lease: Lease, batch: EventBatch, outcome: SendOutcome) -> None:
        renewed = await self.turn.settlement.settle_parked(lease, self.account, batch, outcome)
        keeps_waiting = time.monotonic() - self.started_at > MAIN_WAITS_S
        if renewed is None or not isinstance(outcome, Delivered) or (renewed.main_waits and keeps_waiting):
            self.turn.reader = None
            return
        self.turn.lease, self.limit = renewed, min(self.limit * 2, MAX_BATCH)
        self.account = replace(self.account, position=batch.positions[-1] + 1, refusals=0)


# Find the accounts whose events the receiver refuses, park them, and continue with the others.
#
# A turn sends single events. When the first event after the cursor is refused, the next event of other accounts follows
# as a probe. An accepted probe proves that the receiver works: every account refused before it in this turn is parked.


class Round(Struct):
    """The first event after the cursor, and the probes that follow if it is refused."""

    head: EventBatch
    account_id: str
    # The next event of each other account, in order of position, up to one more than a turn may probe.
    nearest: Sequence[Probe]
    probes: Sequence[Probe]
    # Whether there are accounts after the last probe.
    continues: bool
    refused: list[RefusedAccount] = field(default_factory=list)
    outcomes: list[Retry] = field(default_factory=list)
    probes_sent: int = 0

    @property
    def next_probe(self) -> Probe:
        return self.probes[self.probes_sent]

    @property
    def unanswered(self) -> int:
        return sum(outcome.status is None for outcome in self.outcomes)

    def reached_by(self, accepted: Probe) -> int:
        """How far the cursor may move: up to the next event of an account that is not parked and was not sent."""
        refused = {account.position for account in self.refused}
        waiting = [probe.position for probe in self.nearest if probe.position not in refused]
        return accepted.position if not waiting or waiting[0] == accepted.position else waiting[0] - 1


class Probing(Struct):
    turn: Turn
    rounds: list[Round] = field(default_factory=list)
    # Whether the last round goes on with another probe.
    in_round: bool = False

    async def read(self) -> EventBatch | None:
        if self.in_round:
            return self.rounds[-1].next_probe.batch
        lease = self.turn.lease
        if len(self.rounds) == PROBES or lease.cursor_position >= lease.last_position or self.turn.stopping.is_set():
            return None
        async with self.turn.database.connection() as connection:
            head = await batch_store.read_in_scope(connection, replace(lease, batch_limit=1))
            if not head.positions:
                return head
            found = await _prepare(connection, lease, head)
        self.rounds.append(found)
        if lease.head_refusals >= REFUSALS_BEFORE_PARKING and lease.probe_after is None and found.probes:
            # The first time, the event was refused alone just before.
            found.refused.append(RefusedAccount(found.account_id, head.positions[0], lease.head_refusals))
            self.in_round = True
            return found.next_probe.batch
        return head

    async def settle(self, lease: Lease, batch: EventBatch, outcome: SendOutcome) -> None:
        found, settlement = self.rounds[-1], self.turn.settlement
        probe = found.next_probe if batch.is_probe else None
        self.in_round = False
        renewed: Lease | None = None
        if isinstance(outcome, Delivered) and probe is not None:
            accepted = replace(batch, reaches=found.reached_by(probe))
            renewed = await settlement.park(lease, accepted, outcome, found.refused)
        elif isinstance(outcome, Delivered) or not found.probes or outcome.ends_turn:
            renewed = await settlement.settle(lease, batch, outcome)
        elif self._refuse(lease, found, probe, outcome):
            self.in_round, renewed = True, await settlement.record_refusal(lease, batch, outcome)
        else:
            await self._give_up(lease, found, outcome)
        self.turn.continue_with(renewed)

    def _refuse(self, lease: Lease, found: Round, probe: Probe | None, outcome: Retry) -> bool:
        """Note that the first event, or a probe, was refused. Whether another probe follows in this turn."""
        found.outcomes.append(outcome)
        if probe is None:
            found.refused.append(RefusedAccount(found.account_id, found.head.positions[0], lease.head_refusals + 1))
            return True
        found.refused.append(RefusedAccount(probe.account_id, probe.position, 1))
        found.probes_sent += 1
        all_sent = found.probes_sent == len(found.probes)
        return not (all_sent or found.unanswered >= MAX_UNANSWERED or self.turn.stopping.is_set())

    async def _give_up(self, lease: Lease, found: Round, outcome: Retry) -> None:
        """No event was accepted. The next turn probes the next accounts.

        It follows soon, whatever the back-off, if the receiver works but refused each of these events.
        """
        last = found.probes[found.probes_sent - 1]
        exhausted = not found.continues and last is found.probes[-1]
        soon = not exhausted and all(refusal.concerns_event for refusal in found.outcomes)
        next_after = 0 if exhausted else last.position
        await self.turn.settlement.settle_probes(lease, last.batch, outcome, probe_after=next_after, soon=soon)


async def _prepare(connection: Connection, lease: Lease, head: EventBatch) -> Round:
    account_id = await batch_store.account_at(connection, lease, head.positions[0])
    nearest = await batch_store.read_probes(connection, lease, account_id, lease.cursor_position, PROBES + 1)
    if lease.accepted_probe is not None and lease.accepted_probe > lease.cursor_position:
        # The nearest accounts, and then the one whose event was accepted: if it still is, the others are parked.
        good = await batch_store.read_probes(connection, lease, account_id, lease.accepted_probe - 1, 1)
        first = nearest[: PROBES - 1]
        probes = [*first, *(probe for probe in good if probe not in first)]
        return Round(head, account_id, nearest, probes, continues=len(nearest) > len(first))
    candidates = nearest
    if lease.probe_after is not None and lease.probe_after > lease.cursor_position:
        candidates = await batch_store.read_probes(connection, lease, account_id, lease.probe_after, PROBES + 1)
    candidates = candidates or nearest
    return Round(head, account_id, nearest, candidates[:PROBES], continues=len(candidates) > PROBES)


# The fast path: a webhook that takes every event of its stream, with no failure and no parked account.

# After a slower request than this, the pipeline settles and re-reads the registration before it sends again.
SETTLE_FIRST_AFTER_S = 0.1


class StreamPipeline(Struct):
    """While a batch is being sent, the previous one is settled and the next one is read.

    A change of the registration may therefore be seen one request late, but never after a slow request.
    """

    turn: Turn
    # How many events the next batch may have.
    limit: int = 0
    # How many batches were taken from the stream, and the next one, once it is read.
    batches: int = 0
    upcoming: EventBatch | None = None
    unsettled: tuple[Lease, EventBatch, SendOutcome] | None = None
    sent_at: float = 0.0
    # When the registration was last known to be as in the lease.
    seen_at: float = field(default_factory=time.monotonic)

    async def read(self) -> EventBatch | None:
        if self.batches == 0:
            lease = self.turn.lease
            self.limit = lease.batch_limit
            self.upcoming = lease.first_batch or await self._read(lease.cursor_position, self.limit)
        while (batch := self.upcoming) is not None and not self.turn.stopping.is_set():
            if not await self._settle_after_slow_request():
                break
            self.batches += 1
            # A turn that keeps nobody waiting may send more than its share: a new claim waits for the disk.
            goes_on = self.batches < BATCHES_PER_CLAIM or self.turn.slots.may_stay(self.turn.lease)
            if batch.positions:
                self.limit = min(MAX_BATCH, self.limit * 2)
                self._start_background(batch, self.limit if goes_on else 0)
                return batch
            self.upcoming = await self._pass_over(batch, self.limit if goes_on else 0)
        await self._settle(release=True)
        return None

    def _start_background(self, batch: EventBatch, next_limit: int) -> None:
        """Settle the previous batch and read the next one while this one is sent."""
        self.sent_at = time.monotonic()
        if self.unsettled is None and (next_limit == 0 or batch.reaches >= self.turn.lease.last_position):
            # A single batch: tasks would cost as much as signing.
            return
        settling = asyncio.create_task(self._settle())
        reading = asyncio.create_task(self._read(batch.reaches, next_limit))
        self.turn.background = settling, reading

    async def settle(self, lease: Lease, batch: EventBatch, outcome: SendOutcome) -> None:
        """The result is stored while the next batch is sent, or with the end of the lease."""
        self.upcoming = None
        if self.turn.background:
            settling, reading = self.turn.background
            may_continue, following = await settling, await reading
            self.turn.background = ()
            if may_continue and isinstance(outcome, Delivered):
                self.upcoming = following
        self.unsettled, self.seen_at = (lease, batch, outcome), self.sent_at

    async def _pass_over(self, batch: EventBatch, limit: int) -> EventBatch | None:
        """Move past events that are all filtered out. Returns the next batch.

        The cursor moves with the batch that was sent just before, if there is one: that costs no statement.
        """
        if self.unsettled is not None:
            lease, sent, outcome = self.unsettled
            self.unsettled = lease, replace(sent, reaches=batch.reaches), outcome
        elif not self._is_unchanged(await self.turn.settlement.pass_over(self.turn.lease, batch.reaches)):
            return None
        return await self._read(batch.reaches, limit)

    async def _settle_after_slow_request(self) -> bool:
        if self.unsettled is None or time.monotonic() - self.seen_at <= SETTLE_FIRST_AFTER_S:
            return True
        may_continue = await self._settle()
        self.seen_at = time.monotonic()
        return may_continue

    async def _settle(self, *, release: bool = False) -> bool:
        """Whether more may be sent. With `release`, the lease ends with this result if no event waits."""
        if self.unsettled is None:
            return True
        unsettled, self.unsettled = self.unsettled, None
        return self._is_unchanged(await self.turn.settlement.settle(*unsettled, release=release))

    def _is_unchanged(self, renewed: Lease | None) -> bool:
        """Continue with the renewed lease, unless it is lost or the registration has changed."""
        if renewed is None or renewed.version != self.turn.lease.version:
            return False
        self.turn.lease = renewed
        return True

    async def _read(self, after: int, limit: int) -> EventBatch | None:
        lease = self.turn.lease
        if limit == 0 or after >= lease.last_position:
            return None
        return await retry_until(lease.expires_at, lambda: self.turn.shared_reads.read(lease, after, limit))


class ReadInScope(Struct):
    """One batch of the events in scope, without those of parked accounts."""

    turn: Turn

    async def read(self) -> EventBatch:
        return await self.turn.database.run(batch_store.read_in_scope, self.turn.lease)

    async def settle(self, lease: Lease, batch: EventBatch, outcome: SendOutcome) -> None:
        self.turn.reader = None
        self.turn.continue_with(await self.turn.settlement.settle(lease, batch, outcome))


class Refusals(StrEnum):
    """How the receiver has answered since it last accepted an event."""

    NONE = "none"
    SOME = "some"
    # It refuses the first event after the cursor, even when that is sent alone.
    REPEATED = "repeated"

    @staticmethod
    def of(lease: Lease) -> "Refusals":
        if lease.head_refusals >= REFUSALS_BEFORE_PARKING:
            return Refusals.REPEATED
        return Refusals.SOME if lease.failures else Refusals.NONE


# (has parked accounts, refusals, takes the whole stream) -> reader. A lease that takes the whole stream has neither
# parked accounts nor refusals.
READERS: Final[dict[tuple[bool, Refusals, bool], type[StreamPipeline | ReadInScope | Probing]]] = {
    (False, Refusals.NONE, True): StreamPipeline,
    (False, Refusals.NONE, False): ReadInScope,
    (False, Refusals.SOME, False): ReadInScope,
    (False, Refusals.REPEATED, False): Probing,
    (True, Refusals.NONE, False): ReadInScope,
    # The receiver accepts some accounts only: this may be one more that it refuses.
    (True, Refusals.SOME, False): Probing,
    (True, Refusals.REPEATED, False): Probing,
}


async def next_batch(turn: Turn) -> tuple[Lease, EventBatch, BatchReader] | None:
    """The lease under which to send, the batch, and its reader, which settles the result.

    None when the turn ends: nothing is due, its share is used up, or the receiver has refused an event.
    """
    while (reader := turn.reader or await _choose_reader(turn)) is not None:
        turn.reader = reader
        batch = await reader.read()
        if batch is not None and batch.positions:
            return turn.lease, batch, reader
        turn.reader = None
        if batch is not None:
            moves = batch.reaches > turn.lease.cursor_position
            turn.continue_with(await turn.settlement.pass_over(turn.lease, batch.reaches) if moves else None)
    return None


async def _choose_reader(turn: Turn) -> BatchReader | None:
    lease = turn.lease
    if turn.main_open and lease.main_waits and not turn.stopping.is_set():
        reader = READERS[lease.has_parked, Refusals.of(lease), lease.takes_whole_stream]
        # The pipeline has a share of its own, and what it leaves is for the next turn.
        turn.main_open = reader is not StreamPipeline
        turn.chosen += 1
        if not turn.main_open or turn.chosen <= BATCHES_PER_CLAIM:
            return reader(turn)
    turn.main_open = False
    # The receiver may hang on this account, so the turn needs a slot of the failing ones. If there is none, a later
    # turn sends the request.
    if turn.parked_open and not lease.is_released and turn.slots.may_hang(lease):
        turn.parked_open = False
        return await ReadParkedAccount.find(turn)
    return None
