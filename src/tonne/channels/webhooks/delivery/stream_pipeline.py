"""The fast path: a webhook that takes every event of its stream, with no failure and no parked account."""

import asyncio
import time

from msgspec import Struct, field

from tonne.channels.webhooks.delivery.outcomes import Delivered, SendOutcome
from tonne.channels.webhooks.delivery.schedule import BATCHES_PER_CLAIM, MAX_BATCH
from tonne.channels.webhooks.delivery.settle import retry_until
from tonne.channels.webhooks.delivery.turn import Turn
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.values.replace import replace

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
