"""Deliver a webhook's main stream: all its events in order, except those of parked accounts."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from tonne.channels.webhooks.delivery import batch_store
from tonne.channels.webhooks.delivery.probing import Probing
from tonne.channels.webhooks.delivery.schedule import BATCHES_PER_CLAIM
from tonne.channels.webhooks.delivery.send_batch import BatchSender
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.delivery.shared_event_reads import SharedEventReads
from tonne.channels.webhooks.delivery.stream_pipeline import StreamPipeline
from tonne.channels.webhooks.model import Lease
from tonne.platform.db.pool import Database


class MainStream(Struct, frozen=True):
    database: Database
    reads: SharedEventReads
    sender: BatchSender
    settlement: Settlement
    stopping: asyncio.Event

    async def deliver(self, lease: Lease, may_stay: Callable[[], bool]) -> bool:
        """One batch at a time while events are filtered out, parked or refused; pipelined otherwise.

        Returns whether the lease is released already.
        """
        held: Lease | None = lease
        for _ in range(BATCHES_PER_CLAIM):
            if held is None or held.takes_whole_stream or self.stopping.is_set():
                break
            held = await self._deliver_next(held)
        if held is None or not held.takes_whole_stream:
            return False
        pipeline = StreamPipeline(held, self.reads, self.sender, self.settlement, self.stopping, may_stay)
        return await pipeline.deliver()

    async def _deliver_next(self, lease: Lease) -> Lease | None:
        """Deliver one batch. Returns the renewed lease if another may follow at once."""
        if not lease.main_due or lease.cursor_position >= lease.last_position:
            return None
        if Probing.is_needed(lease):
            probing = Probing(self.database, self.sender, self.settlement, self.stopping)
            return await probing.deliver(lease)
        async with self.database.connection() as connection:
            batch = await batch_store.read_in_scope(connection, lease)
        if not batch.positions:
            reached = batch.reaches == lease.cursor_position
            return None if reached else await self.settlement.pass_over(lease, batch.reaches)
        return await self.settlement.settle(lease, batch, await self.sender.send(lease, batch))
