"""The fast path: a webhook that takes every event of its stream, with no failure and no parked account."""

import asyncio
import itertools
import time
from collections.abc import Callable

from msgspec import Struct, field

from tonne.channels.webhooks.delivery.outage import retry_until
from tonne.channels.webhooks.delivery.outcomes import Delivered, SendOutcome
from tonne.channels.webhooks.delivery.schedule import BATCHES_PER_CLAIM, MAX_BATCH
from tonne.channels.webhooks.delivery.send_batch import BatchSender
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.delivery.shared_event_reads import SharedEventReads
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.values.replace import replace

# After a slower request than this, the pipeline settles and re-reads the registration before it sends again.
SETTLE_FIRST_AFTER_S = 0.1


class StreamPipeline(Struct):
    """While a batch is being sent, the previous one is settled and the next one is read.

    A change of the registration may therefore be seen one request late, but never after a slow request.
    """

    lease: Lease
    reads: SharedEventReads
    sender: BatchSender
    settlement: Settlement
    stopping: asyncio.Event
    # Whether the turn may go on after its share of batches. A new claim waits for the disk.
    may_stay: Callable[[], bool]
    # When the registration was last known to be as in the lease.
    seen_at: float = field(default_factory=time.monotonic)
    unsettled: tuple[Lease, EventBatch, SendOutcome] | None = None

    async def deliver(self) -> bool:
        """Whether the lease is released already."""
        limit = self.lease.batch_limit
        batch = self.lease.first_batch or await self._read(self.lease.cursor_position, limit)
        for sent in itertools.count(1):
            if batch is None or self.stopping.is_set() or not await self._settle_after_slow_request():
                break
            if not batch.positions:
                goes_on = sent < BATCHES_PER_CLAIM or self.may_stay()
                batch = await self._pass_over(batch, limit if goes_on else 0)
                continue
            limit = min(MAX_BATCH, limit * 2)
            goes_on = sent < BATCHES_PER_CLAIM or self.may_stay()
            batch = await self._send(batch, next_limit=limit if goes_on else 0)
        await self._settle(release=True)
        return self.lease.is_released

    async def _send(self, batch: EventBatch, *, next_limit: int) -> EventBatch | None:
        """Returns the next batch, if it may be sent."""
        lease, started = self.lease, time.monotonic()
        if self.unsettled is None and (next_limit == 0 or batch.reaches >= lease.last_position):
            # A single batch: tasks would cost as much as signing.
            self.unsettled, self.seen_at = (lease, batch, await self.sender.send(lease, batch)), started
            return None
        sending = asyncio.create_task(self.sender.send(lease, batch))
        settling = asyncio.create_task(self._settle())
        reading = asyncio.create_task(self._read(batch.reaches, next_limit))
        # Not a TaskGroup: a failed read must not cancel the request or the settlement.
        await asyncio.gather(sending, settling, reading, return_exceptions=True)
        outcome = sending.result()
        self.unsettled, self.seen_at = (lease, batch, outcome), started
        may_continue, next_batch = settling.result(), reading.result()
        return next_batch if may_continue and isinstance(outcome, Delivered) else None

    async def _pass_over(self, batch: EventBatch, limit: int) -> EventBatch | None:
        """Move past events that are all filtered out. Returns the next batch.

        The cursor moves with the batch that was sent just before, if there is one: that costs no statement.
        """
        if self.unsettled is not None:
            lease, sent, outcome = self.unsettled
            self.unsettled = lease, replace(sent, reaches=batch.reaches), outcome
        else:
            renewed = await self.settlement.pass_over(self.lease, batch.reaches)
            if renewed is None or renewed.version != self.lease.version:
                return None
            self.lease = renewed
        return await self._read(batch.reaches, limit)

    async def _settle_after_slow_request(self) -> bool:
        if self.unsettled is None or time.monotonic() - self.seen_at <= SETTLE_FIRST_AFTER_S:
            return True
        may_continue = await self._settle()
        self.seen_at = time.monotonic()
        return may_continue

    async def _settle(self, *, release: bool = False) -> bool:
        """False when nothing more may be sent: the lease is lost or the registration has changed.

        With `release`, the lease ends with this result if no event waits.
        """
        if self.unsettled is None:
            return True
        unsettled, self.unsettled = self.unsettled, None
        renewed = await self.settlement.settle(*unsettled, release=release)
        if renewed is None or renewed.version != self.lease.version:
            return False
        self.lease = renewed
        return True

    async def _read(self, after: int, limit: int) -> EventBatch | None:
        if limit == 0 or after >= self.lease.last_position:
            return None
        lease = self.lease
        return await retry_until(lease.expires_at, lambda: self.reads.read(lease, after, limit))
