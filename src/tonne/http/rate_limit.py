"""Token buckets in this process's memory: losing them with the process costs nothing but a fresh burst."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from tonne.http.errors import RateLimited

# More buckets than this and the least recently used are forgotten: a forgotten bucket is a full one.
_MAX_BUCKETS = 50_000


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    remaining: int
    # Seconds until one more request is allowed.
    retry_after_s: float


class TokenBuckets:
    """`burst` at once, `per_second` in the long run, for each name."""

    def __init__(self, per_second: float, burst: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self.burst = burst
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, tokens: int = 1) -> Verdict:
        """Take `tokens`, or none when there are not enough. Zero tokens only looks."""
        now = self._monotonic()
        level, since = self._buckets.get(name, (float(self.burst), now))
        level = min(float(self.burst), level + (now - since) * self.per_second)
        allowed = level >= max(tokens, 1)
        if allowed:
            level -= tokens
        self._buckets[name] = (level, now)
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        wait = 0.0 if level >= 1 else (1 - level) / self.per_second
        return Verdict(allowed, int(level), wait)


def too_many(verdict: Verdict, message: str | None = None) -> RateLimited:
    """The refusal, which says how long to wait."""
    refusal = RateLimited(message)
    refusal.headers["Retry-After"] = str(max(1, math.ceil(verdict.retry_after_s)))
    return refusal
