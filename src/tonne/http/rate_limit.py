"""Rate limits as token buckets in the memory of this process. A restart only grants every client a new burst."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from tonne.http.errors import RateLimited

# Beyond this number the least recently used buckets are dropped. A client whose bucket was dropped has a full burst.
_MAX_BUCKETS = 50_000


class Quota(NamedTuple):
    """What is left of a client's limit."""

    allowed: bool
    remaining: int
    # Seconds until one more request is allowed.
    retry_after_s: float


class TokenBuckets:
    """One bucket per client: `burst` tokens at once, refilled with `per_second`."""

    def __init__(self, per_second: float, burst: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self.burst = burst
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def consume(self, client: str, tokens: int = 1) -> Quota:
        """Consume all `tokens`, or none if there are too few. With 0, only check whether there is one."""
        now = self._monotonic()
        level, since = self._buckets.get(client, (float(self.burst), now))
        level = min(float(self.burst), level + (now - since) * self.per_second)
        allowed = level >= max(tokens, 1)
        if allowed:
            level -= tokens
        self._buckets[client] = (level, now)
        self._buckets.move_to_end(client)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
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
