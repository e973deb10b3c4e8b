"""Keeps one organisation from using up all database connections of a process."""

from tonne.platform.http.limits.rate_limit import Quota, rate_limited
from tonne.platform.process.shared_timer import WaitQueue

_RETRY_AFTER_S = 2.0
_BUSY = "Too many requests of your organisation wait. Wait for the number of seconds in Retry-After."


class FairShare:
    """At most `limit` requests of one organisation run at a time; the others wait, in order, for at most `wait_s`.

    Requests of one organisation may all wait for the same locked row. Requests of the others then still find a
    connection.
    """

    def __init__(self, limit: int, wait_s: float) -> None:
        self._limit = limit
        self._wait_s = wait_s
        self._running: dict[str, int] = {}
        self._waiters: dict[str, WaitQueue[None]] = {}

    async def enter(self, organisation_id: str) -> None:
        """Raises RateLimited."""
        running = self._running.get(organisation_id, 0)
        if running < self._limit:
            self._running[organisation_id] = running + 1
            return
        waiters = self._waiters.setdefault(organisation_id, WaitQueue(self._wait_s))
        try:
            await waiters.wait(lambda _: self.leave(organisation_id))
        except TimeoutError as error:
            raise rate_limited(Quota(allowed=False, remaining=0, retry_after_s=_RETRY_AFTER_S), _BUSY) from error

    def leave(self, organisation_id: str) -> None:
        waiters = self._waiters.get(organisation_id)
        if waiters is not None and waiters.hand_over(None):
            return
        self._waiters.pop(organisation_id, None)
        running = self._running.pop(organisation_id) - 1
        if running:
            self._running[organisation_id] = running
