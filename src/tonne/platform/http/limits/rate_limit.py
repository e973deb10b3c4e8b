"""Rate limits as token buckets, shared by the processes of one `tonne api`.

`shared_limits.py` adds up what clients use on several machines.
"""

import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.shared_buckets import LIMITS_VARIABLE, SharedBuckets

# Beyond this number the least recently used buckets are dropped. A client whose bucket was dropped has a full burst.
_MAX_BUCKETS = 50_000
# Clients whose use is remembered until it is reported. Beyond this number, only this machine limits further clients.
_MAX_USED = 2000


class Quota(NamedTuple):
    """What is left of a client's limit."""

    allowed: bool
    remaining: int
    # Seconds until one more request is allowed.
    retry_after_s: float


class Buckets(Protocol):
    """The level of each client, and the time of that level."""

    def load(self, client: str) -> tuple[float, float] | None: ...

    def store(self, client: str, level: float, now: float) -> None: ...


class ProcessBuckets:
    """In the memory of this process."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def load(self, client: str) -> tuple[float, float] | None:
        return self._buckets.get(client)

    def store(self, client: str, level: float, now: float) -> None:
        self._buckets[client] = (level, now)
        self._buckets.move_to_end(client)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)


class TokenBuckets:
    """One bucket per client: `burst` tokens at once, refilled with `per_second`.

    Limits of the same `name` are one limit in all processes that share a folder (`LIMITS_VARIABLE`).
    """

    def __init__(
        self, name: str, per_second: float, burst: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self.per_second = per_second
        self.burst = burst
        self._monotonic = monotonic
        folder = os.environ.get(LIMITS_VARIABLE)
        self._buckets: Buckets = ProcessBuckets() if folder is None else SharedBuckets(Path(folder) / name)
        # What clients have used since the last report to the other machines.
        self._used: dict[str, int] = {}

    def consume(self, client: str, tokens: int = 1) -> Quota:
        """Consume all `tokens`, or none if there are too few. With 0, only check whether there is one."""
        now = self._monotonic()
        level = self._level(client, now)
        allowed = level >= max(tokens, 1)
        if allowed:
            level -= tokens
            if tokens:
                self._note(client, tokens)
        self._buckets.store(client, level, now)
        wait = 0.0 if level >= 1 else (1 - level) / self.per_second
        return Quota(allowed, max(0, int(level)), wait)

    def require(self, client: str, tokens: int = 1, message: str | None = None) -> None:
        """Consume `tokens`, or raise RateLimited."""
        quota = self.consume(client, tokens)
        if not quota.allowed:
            raise rate_limited(quota, message)

    def take_used(self) -> dict[str, int]:
        """What clients have used since the last call."""
        used, self._used = self._used, {}
        return used

    def lower(self, client: str, level: float) -> None:
        """To what all machines together have left of the client's limit. It may be below 0."""
        now = self._monotonic()
        if level < self._level(client, now):
            self._buckets.store(client, level, now)

    def _level(self, client: str, now: float) -> float:
        level, since = self._buckets.load(client) or (float(self.burst), now)
        # Another process may have stored a slightly later time.
        return min(float(self.burst), level + max(0.0, now - since) * self.per_second)

    def _note(self, client: str, tokens: int) -> None:
        used = self._used.get(client)
        if used is not None:
            self._used[client] = used + tokens
        elif len(self._used) < _MAX_USED:
            self._used[client] = tokens


def rate_limited(quota: Quota, message: str | None = None) -> RateLimited:
    """The error with its Retry-After header."""
    error = RateLimited(message)
    error.headers["Retry-After"] = str(max(1, math.ceil(quota.retry_after_s)))
    return error
