"""Deliver the waiting events of parked accounts, each account with a back-off of its own."""

import asyncio
from dataclasses import dataclass, replace

from tonne.db.pool import Database
from tonne.webhooks import batch_store, parked_store
from tonne.webhooks.model import Lease, ParkedAccount
from tonne.webhooks.outcomes import Delivered
from tonne.webhooks.schedule import BATCHES_PER_CLAIM, MAX_BATCH
from tonne.webhooks.send_batch import BatchSender
from tonne.webhooks.settle import Settlement


@dataclass(frozen=True, slots=True)
class ParkedAccounts:
    database: Database
    sender: BatchSender
    settlement: Settlement
    stopping: asyncio.Event

    async def deliver_due(self, lease: Lease) -> Lease | None:
        """Returns the renewed lease; None when it is lost."""
        if not lease.has_parked:
            return lease
        async with self.database.connection() as connection:
            due = await parked_store.list_due(connection, lease)
        held: Lease | None = lease
        for account in due:
            held = held and await self._deliver(held, account)
        return held

    async def _deliver(self, lease: Lease, account: ParkedAccount) -> Lease | None:
        """One event, then twice as many after each success."""
        limit = 1
        for _ in range(BATCHES_PER_CLAIM):
            async with self.database.connection() as connection:
                batch = await batch_store.read_parked(connection, lease, account.account_id, account.position, limit)
            if not batch.positions or self.stopping.is_set():
                break
            outcome = await self.sender.send(lease, batch)
            renewed = await self.settlement.settle_parked(lease, account, batch, outcome)
            if renewed is None or not isinstance(outcome, Delivered):
                return renewed
            lease, limit = renewed, min(limit * 2, MAX_BATCH)
            account = replace(account, position=batch.positions[-1] + 1, refusals=0)
        return lease
