"""Rate limits as token buckets, shared by the processes of one `tonne api`.

`shared_limits.py` adds up what clients use on several machines.
"""

import math
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from tonne.platform.http.client_address import site_name
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.shared_buckets import LIMITS_VARIABLE, SharedBuckets

# A site of IPv6, which has 65,536 networks, is allowed as much as this number of them.
SITE_NETWORKS = 8
# Clients whose use is remembered until it is reported. Beyond this number, only this machine limits further clients.
_MAX_USED = 2000


class Quota(NamedTuple):
    """What is left of a client's limit."""

    allowed: bool
    remaining: int
    # Seconds until one more request is allowed.
    retry_after_s: float


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
        self._buckets = SharedBuckets(folder, name, per_second, burst)
        # What clients have used since the last report to the other machines.
        self._used: dict[str, float] = {}

    def consume(self, client: str, tokens: int = 1) -> Quota:
        """Consume all `tokens`, or none if there are too few. With 0, only check whether there is one."""
        quota = self._consume(client, tokens, 1)
        site = site_name(client) if quota.allowed else None
        of_site = quota if site is None else self._consume(site, tokens, 1 / SITE_NETWORKS)
        return quota if of_site.allowed else of_site

    def require(self, client: str, tokens: int = 1, message: str | None = None) -> None:
        """Consume `tokens`, or raise RateLimited."""
        quota = self.consume(client, tokens)
        if not quota.allowed:
            raise rate_limited(quota, message)

    def take_used(self) -> dict[str, float]:
        """What clients have used since the last call."""
        used, self._used = self._used, {}
        return used

    def lower(self, client: str, level: float) -> None:
        """To what all machines together have left of the client's limit. It may be below 0."""
        now = self._monotonic()
        row = self._buckets.find(client, now)
        if level < row.level:
            self._buckets.store(row, level, now)

    def _consume(self, client: str, tokens: int, unit: float) -> Quota:
        """`unit` is what a token costs this client."""
        now = self._monotonic()
        row = self._buckets.find(client, now)
        level = row.level
        allowed = level >= max(tokens, 1) * unit
        if allowed and tokens:
            level -= tokens * unit
            self._note(client, tokens * unit)
        self._buckets.store(row, level, now)
        wait = 0.0 if level >= unit else (unit - level) / self.per_second
        return Quota(allowed, max(0, int(level / unit)), wait)

    def _note(self, client: str, tokens: float) -> None:
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
