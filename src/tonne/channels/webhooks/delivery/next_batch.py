"""Which events a turn sends next. The state of the lease decides how they are read."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from tonne.channels.webhooks.delivery import batch_store
from tonne.channels.webhooks.delivery.outcomes import SendOutcome
from tonne.channels.webhooks.delivery.parked_accounts import ReadParkedAccount
from tonne.channels.webhooks.delivery.probing import Probing
from tonne.channels.webhooks.delivery.schedule import BATCHES_PER_CLAIM, REFUSALS_BEFORE_PARKING
from tonne.channels.webhooks.delivery.stream_pipeline import StreamPipeline
from tonne.channels.webhooks.delivery.turn import BatchReader, Turn
from tonne.channels.webhooks.model import EventBatch, Lease


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
