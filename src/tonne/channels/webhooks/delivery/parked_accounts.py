"""Deliver the waiting events of parked accounts, each account with a back-off of its own."""

import time

from msgspec import Struct, field

from tonne.channels.webhooks.delivery import batch_store, parked_store
from tonne.channels.webhooks.delivery.outcomes import Delivered, SendOutcome
from tonne.channels.webhooks.delivery.schedule import BATCHES_PER_CLAIM, MAX_BATCH
from tonne.channels.webhooks.delivery.turn import Turn
from tonne.channels.webhooks.model import EventBatch, Lease, ParkedAccount
from tonne.platform.values.replace import replace

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
