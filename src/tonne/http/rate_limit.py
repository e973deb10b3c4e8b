"""Rate limits as token buckets, shared by the processes of one `tonne api`.

A restart only grants every client a new burst.
"""

import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from tonne.http.errors import RateLimited
from tonne.http.shared_buckets import LIMITS_VARIABLE, SharedBuckets

# Beyond this number the least recently used buckets are dropped. A client whose bucket was dropped has a full burst.
_MAX_BUCKETS = 50_000


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
        self.per_second = per_second
        self.burst = burst
        self._monotonic = monotonic
        folder = os.environ.get(LIMITS_VARIABLE)
        self._buckets: Buckets = ProcessBuckets() if folder is None else SharedBuckets(Path(folder) / name)

    def consume(self, client: str, tokens: int = 1) -> Quota:
        """Consume all `tokens`, or none if there are too few. With 0, only check whether there is one."""
        now = self._monotonic()
        level, since = self._buckets.load(client) or (float(self.burst), now)
        # Another process may have stored a slightly later time.
        level = min(float(self.burst), level + max(0.0, now - since) * self.per_second)
        allowed = level >= max(tokens, 1)
        if allowed:
            level -= tokens
        self._buckets.store(client, level, now)
        wait = 0.0 if level >= 1 else (1 - level) / self.per_second
        return Quota(allowed, int(level), wait)

    def require(self, client: str, tokens: int = 1, message: str | None = None) -> None:
        """Consume `tokens`, or raise RateLimited."""
        quota = self.consume(client, tokens)
        if not quota.allowed:
            raise rate_limited(quota, message)


def rate_limited(quota: Quota, message: str | None = None) -> RateLimited:
    """The error with its Retry-After header."""
    error = RateLimited(message)
    error.headers["Retry-After"] = str(max(1, math.ceil(quota.retry_after_s)))
    return error
