"""How many mails a worker sends at the same time, and which.

A lane is a connection to the mail server with one mail at a time. Two lanes are left to urgent mails, but only if the
server is slow: otherwise a lane is free in a moment anyway. After a failed connect there are only as many lanes as have
a connection, so that a server that allows fewer than the setting is not asked all the time. When the server is away,
all lanes pause, and then one tries.
"""

import time
from collections.abc import Callable

RESERVED = 2
# With fewer lanes, nothing is reserved and no mail is claimed ahead: an urgent one then waits for one mail at most.
MIN_LANES = 4
CLAIMED_PER_LANE = 4
# A server that takes longer for a mail is slow.
SLOW_S = 1.0
FAILED_CONNECTS = 3
PAUSE_S = 5.0


class Lanes:
    def __init__(self, connections: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._connections = connections
        self._monotonic = monotonic
        self._lanes = connections
        self._resume_at = 0.0
        self._failed_connects = 0
        # While the server is away, no mail is sent but one now and then that tries.
        self.is_away = False
        self._is_slow = True
        # Mails that are being sent, and how many of them are not urgent.
        self._busy = self._ordinary = 0

    @property
    def per_lane(self) -> int:
        """How many mails are claimed for a free lane."""
        return CLAIMED_PER_LANE if self._lanes >= MIN_LANES else 1

    def free(self, *, urgent: bool) -> int:
        if self._lanes < self._connections and self._monotonic() >= self._resume_at:
            self._lanes = 1 if self.is_away else self._connections
        free = self._lanes - self._busy
        if urgent or not self._is_slow or self._lanes < MIN_LANES:
            return max(0, free)
        return max(0, min(free, self._lanes - RESERVED - self._ordinary))

    def begin(self, *, urgent: bool) -> None:
        self._busy += 1
        self._ordinary += not urgent

    def end(self, *, urgent: bool, seconds: float, connected: bool) -> None:
        self._busy -= 1
        self._ordinary -= not urgent
        if connected:
            if self.is_away:
                self._lanes = self._connections
            self.is_away, self._failed_connects = False, 0
            self._is_slow = seconds > SLOW_S
        else:
            self._failed_connects += 1
            self.is_away = self._failed_connects >= FAILED_CONNECTS and not self._busy
            self._lanes = max(self._busy, 0 if self.is_away else 1)
            self._resume_at = self._monotonic() + PAUSE_S
