"""How many webhooks a worker serves at once. Receivers that fail or hang leave half of the places to the others."""

import time

from msgspec import Struct, field

from tonne.channels.webhooks.model import Lease

# A turn that takes longer counts like one of a failing webhook.
SLOW_TURN_S = 2.0
# All turns together, slow ones included, by number of places: bounds sockets and memory.
MAX_TURNS_PER_PLACE = 4


class Turn(Struct):
    failing: bool
    started: float = field(default_factory=time.monotonic)


class Places:
    def __init__(self, count: int) -> None:
        self._count = count
        self._for_failing = max(1, count // 2)
        self._turns: dict[tuple[str, int], Turn] = {}
        # Whether webhooks may have been left out for want of a place since the last turn ended.
        self._was_full = False

    def free(self) -> tuple[int, int]:
        """How many webhooks may be claimed: without failures, and others."""
        now = time.monotonic()
        slow = sum(turn.failing or now - turn.started > SLOW_TURN_S for turn in self._turns.values())
        most = self._count * MAX_TURNS_PER_PLACE - len(self._turns)
        failing = min(self._for_failing - slow, self._count - (len(self._turns) - slow), most)
        # With a single place, a slow turn occupies it.
        healthy = min(self._count - (len(self._turns) - slow) - min(slow, self._for_failing), most)
        self._was_full = self._was_full or failing <= 0 or healthy <= 0
        return max(0, healthy), max(0, failing)

    def take(self, lease: Lease) -> bool:
        """Whether it takes a place of the failing ones."""
        main_waits = lease.main_due and lease.cursor_position < lease.last_position
        turn = Turn(failing=lease.failures > 0 or not main_waits)
        self._turns[lease.id, lease.token] = turn
        return turn.failing

    def may_hang(self, lease: Lease) -> bool:
        """Count the turn among those of failing webhooks, if there is a place."""
        turn = self._turns[lease.id, lease.token]
        if not turn.failing and sum(other.failing for other in self._turns.values()) >= self._for_failing:
            return False
        turn.failing = True
        return True

    def may_stay(self, lease: Lease) -> bool:
        """Whether the turn may send more than its share: it keeps nobody waiting, and is not slow."""
        turn = self._turns[lease.id, lease.token]
        return (
            not self._was_full
            and len(self._turns) <= self._count // 2
            and time.monotonic() - turn.started < SLOW_TURN_S / 2
        )

    def leave(self, lease: Lease) -> bool:
        """Whether a webhook may have waited for this place."""
        del self._turns[lease.id, lease.token]
        was_full, self._was_full = self._was_full, False
        return was_full
