"""A turn: the time for which a worker serves one webhook, from the claim to the release of its lease."""

import asyncio
from typing import Any, Protocol

from msgspec import Struct

from tonne.channels.webhooks.delivery.outcomes import SendOutcome
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.delivery.shared_event_reads import SharedEventReads
from tonne.channels.webhooks.delivery.slots import Slots
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.db.database import Database


class BatchReader(Protocol):
    """One way to choose the next events of a webhook, and to settle what came of sending them."""

    async def read(self) -> EventBatch | None:
        """None when this reader has no more. A batch without events reaches past those that are out of scope."""

    async def settle(self, lease: Lease, batch: EventBatch, outcome: SendOutcome) -> None:
        """`lease` is the one under which the batch was sent."""


class Turn(Struct):
    # As claimed, or as renewed by the last settlement.
    lease: Lease
    database: Database
    shared_reads: SharedEventReads
    settlement: Settlement
    slots: Slots
    stopping: asyncio.Event
    # The reader in use. Without one, the state of the lease decides which is next.
    reader: BatchReader | None = None
    # Whether more events of the main stream may be sent.
    main_open: bool = True
    # Whether a parked account may be served after the main stream.
    parked_open: bool = False
    # How many readers were chosen for the main stream.
    chosen: int = 0
    # What the pipeline does while a request is in flight.
    background: tuple[asyncio.Task[Any], ...] = ()

    def __post_init__(self) -> None:
        # An account that is parked during this turn waits for another one.
        self.parked_open = self.lease.has_parked

    def continue_with(self, renewed: Lease | None) -> None:
        """After None, nothing more of the main stream is sent: a refusal, a lost lease or a disabled webhook."""
        if renewed is None:
            self.reader, self.main_open = None, False
        else:
            self.lease = renewed
