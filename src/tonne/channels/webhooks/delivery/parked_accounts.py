"""Deliver the waiting events of parked accounts, each account with a back-off of its own."""

import asyncio
import time

from msgspec import Struct

from tonne.channels.webhooks.delivery import batch_store, parked_store
from tonne.channels.webhooks.delivery.outcomes import Delivered
from tonne.channels.webhooks.delivery.schedule import BATCHES_PER_CLAIM, MAX_BATCH
from tonne.channels.webhooks.delivery.send_batch import BatchSender
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.model import Lease, ParkedAccount
from tonne.platform.db.pool import Database
from tonne.platform.values.replace import replace

# With events waiting in the main stream, no further request for a parked account is sent after this time.
MAIN_WAITS_S = 0.5


class ParkedAccounts(Struct, frozen=True):
    database: Database
    sender: BatchSender
    settlement: Settlement
    stopping: asyncio.Event

    async def deliver_one(self, lease: Lease) -> None:
        """Of the accounts that are due, the one that waits longest: the main stream waits for its response."""
        if not lease.has_parked or self.stopping.is_set():
            return
        held = await self.settlement.renew(lease)
        if held is None:
            return
        async with self.database.connection() as connection:
            account = await parked_store.find_due(connection, held)
        if account is not None:
            await self._deliver(held, account)

    async def _deliver(self, lease: Lease, account: ParkedAccount) -> None:
        """One event, then twice as many after each success, until the main stream has waited for long enough."""
        limit, started = 1, time.monotonic()
        for _ in range(BATCHES_PER_CLAIM):
            async with self.database.connection() as connection:
                batch = await batch_store.read_parked(connection, lease, account.account_id, account.position, limit)
            if not batch.positions or self.stopping.is_set():
                break
            outcome = await self.sender.send(lease, batch)
            renewed = await self.settlement.settle_parked(lease, account, batch, outcome)
            if renewed is None or not isinstance(outcome, Delivered):
                return
            main_waits = renewed.main_due and renewed.cursor_position < renewed.last_position
            if main_waits and time.monotonic() - started > MAIN_WAITS_S:
                return
            lease, limit = renewed, min(limit * 2, MAX_BATCH)
            account = replace(account, position=batch.positions[-1] + 1, refusals=0)
