"""A turn: the time for which a worker serves one webhook, from the claim to the release of its lease."""

import asyncio
import time
from typing import Any, Protocol

from msgspec import Struct, field

from tonne.channels.webhooks.delivery.batch_store import read_stream
from tonne.channels.webhooks.delivery.outcomes import SendOutcome
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode

# How many webhooks a worker serves at once. Receivers that fail or hang leave half of the slots to the others.

# A turn that takes longer counts like one of a failing webhook.
SLOW_TURN_S = 2.0
# All turns together, slow ones included, by number of slots: bounds sockets and memory.
MAX_TURNS_PER_SLOT = 4


class OccupiedSlot(Struct):
    failing: bool
    since: float = field(default_factory=time.monotonic)


class Slots:
    def __init__(self, count: int) -> None:
        self._count = count
        self._for_failing = max(1, count // 2)
        # By id and fencing token of the lease.
        self._occupied: dict[tuple[str, int], OccupiedSlot] = {}
        # Whether webhooks may have been left out for want of a slot since the last turn ended.
        self._was_full = False

    def free(self) -> tuple[int, int]:
        """How many webhooks may be claimed: without failures, and others."""
        now = time.monotonic()
        slow = sum(slot.failing or now - slot.since > SLOW_TURN_S for slot in self._occupied.values())
        fast = len(self._occupied) - slow
        most = self._count * MAX_TURNS_PER_SLOT - len(self._occupied)
        failing = min(self._for_failing - slow, self._count - fast, most)
        # With a single slot, a slow turn occupies it.
        healthy = min(self._count - fast - min(slow, self._for_failing), most)
        self._was_full = self._was_full or failing <= 0 or healthy <= 0
        return max(0, healthy), max(0, failing)

    def acquire(self, lease: Lease) -> bool:
        """Whether it takes a slot of the failing ones."""
        slot = OccupiedSlot(failing=lease.failures > 0 or not lease.main_waits)
        self._occupied[lease.id, lease.token] = slot
        return slot.failing

    def may_hang(self, lease: Lease) -> bool:
        """Count the turn among those of failing webhooks, if there is a slot."""
        slot = self._occupied[lease.id, lease.token]
        if not slot.failing and sum(other.failing for other in self._occupied.values()) >= self._for_failing:
            return False
        slot.failing = True
        return True

    def may_stay(self, lease: Lease) -> bool:
        """Whether the turn may send more than its share: it keeps nobody waiting, and is not slow."""
        slot = self._occupied[lease.id, lease.token]
        return (
            not self._was_full
            and len(self._occupied) <= self._count // 2
            and time.monotonic() - slot.since < SLOW_TURN_S / 2
        )

    def release(self, lease: Lease) -> bool:
        """Whether a webhook may have waited for this slot."""
        del self._occupied[lease.id, lease.token]
        was_full, self._was_full = self._was_full, False
        return was_full


# One read of the stream for all webhooks of an organisation that need the same events at about the same time.

# Webhooks of one organisation read its stream almost in step. A longer time would only use memory.
KEEP_S = 0.1

ReadKey = tuple[str, Mode, int, int, tuple[str, ...]]


class SharedEventReads:
    """Events never change, so a read in progress or just finished serves every caller with the same arguments."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # In the order in which the reads were started, each with the time until which it is kept.
        self._reads: dict[ReadKey, tuple[float, asyncio.Future[EventBatch | None]]] = {}

    async def read(self, lease: Lease, after: int, limit: int) -> EventBatch | None:
        now = time.monotonic()
        self._drop_expired(now)
        key = (lease.organisation_id, lease.mode, after, limit, lease.delivered_types)
        if key in self._reads:
            shared = self._reads[key][1]
            # Shielded: a cancelled caller must not cancel the read for the others.
            return shared.result() if shared.done() else await asyncio.shield(shared)
        reading: asyncio.Future[EventBatch | None] = asyncio.get_running_loop().create_future()
        self._reads[key] = (now + KEEP_S, reading)
        try:
            batch = await self._database.run(read_stream, lease, after, limit)
        except BaseException as error:
            # Waiters get the same exception; later callers query again.
            del self._reads[key]
            reading.set_exception(error if isinstance(error, Exception) else ConnectionError("the read was cancelled"))
            reading.exception()  # without waiters, asyncio would log it as never retrieved
            raise
        reading.set_result(batch)
        return batch

    def _drop_expired(self, now: float) -> None:
        for key, (until, reading) in list(self._reads.items()):
            if until > now:
                break
            if reading.done():
                del self._reads[key]


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
