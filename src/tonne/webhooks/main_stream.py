"""Deliver a webhook's main stream: all its events in order, except those of parked accounts."""

import asyncio
from dataclasses import dataclass, replace

from tonne.db.pool import Connection, Database
from tonne.webhooks import batch_store
from tonne.webhooks.model import EventBatch, Lease
from tonne.webhooks.outcomes import Delivered, DeliveryOutcome, Parked
from tonne.webhooks.schedule import BATCHES_PER_CLAIM, PROBES, REFUSALS_BEFORE_PARKING
from tonne.webhooks.send_batch import BatchSender
from tonne.webhooks.settle import Settlement
from tonne.webhooks.shared_event_reads import SharedEventReads
from tonne.webhooks.stream_pipeline import StreamPipeline


@dataclass(frozen=True, slots=True)
class MainStream:
    database: Database
    reads: SharedEventReads
    sender: BatchSender
    settlement: Settlement
    stopping: asyncio.Event

    async def deliver(self, lease: Lease) -> None:
        """One batch at a time while events are filtered out, parked or refused; pipelined otherwise."""
        held: Lease | None = lease
        for _ in range(BATCHES_PER_CLAIM):
            if held is None or held.takes_whole_stream or self.stopping.is_set():
                break
            held = await self._deliver_next(held)
        if held is not None and held.takes_whole_stream:
            await StreamPipeline(held, self.reads, self.sender, self.settlement, self.stopping).deliver()

    async def _deliver_next(self, lease: Lease) -> Lease | None:
        """Deliver one batch. Returns the renewed lease if another may follow at once."""
        if not lease.main_due or lease.cursor_position >= lease.last_position:
            return None
        async with self.database.connection() as connection:
            batch = await batch_store.read_in_scope(connection, lease)
            suspect = await self._find_suspect(connection, lease, batch)
        if not batch.positions:
            reached = batch.reaches == lease.cursor_position
            return None if reached else await self.settlement.pass_over(lease, batch.reaches)
        if suspect is None:
            return await self.settlement.settle(lease, batch, await self.sender.send(lease, batch))
        account_id, probe = suspect
        outcome: DeliveryOutcome = await self.sender.send(lease, probe)
        if isinstance(outcome, Delivered):
            outcome = Parked(account_id, batch.positions[0], outcome)
        return await self.settlement.settle(lease, probe, outcome)

    @staticmethod
    async def _find_suspect(connection: Connection, lease: Lease, batch: EventBatch) -> tuple[str, EventBatch] | None:
        """The account whose event keeps being refused, and another account's event to send instead.

        Every second failure once the first event has been refused often enough alone. If the receiver accepts the
        other event, only the first account is refused.
        """
        if not batch.positions or lease.head_refusals < REFUSALS_BEFORE_PARKING or lease.failures % 2 == 0:
            return None
        account_id = await batch_store.account_at(connection, lease, batch.positions[0])
        probes = await batch_store.read_probes(connection, lease, account_id, PROBES)
        if not probes:
            return None
        # Another account each time, in case several are refused.
        probe = probes[lease.failures // 2 % len(probes)]
        if probe is probes[0]:
            return account_id, probe
        # The cursor stops before the first probe, because the events from there on have not been sent. A later probe
        # that is accepted is therefore sent again in order.
        return account_id, replace(probe, reaches=probes[0].reaches - 1)
