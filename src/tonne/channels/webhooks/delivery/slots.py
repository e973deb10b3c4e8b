"""How many webhooks a worker serves at once. Receivers that fail or hang leave half of the slots to the others."""

import time

from msgspec import Struct, field

from tonne.channels.webhooks.model import Lease

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
