"""Admits requests so that all who pay for them, organisations and networks, get the same share of a busy process.

Start-time fair queueing: each payer has a tag, which grows with what its requests cost, and the waiting request of the
payer with the lowest tag is next. A payer that was idle starts at the tag of the request that was admitted last: it
waits for no other's past, and saves nothing up.
"""

import asyncio
from collections import deque
from heapq import heappop, heappush
from time import perf_counter_ns
from typing import NamedTuple

from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.rate_limit import Quota, rate_limited
from tonne.platform.process.shared_timer import SharedTimer

# Requests of one payer that wait at a time. More are refused at once.
MAX_WAITING = 500
_RETRY_AFTER_S = 2.0
_MAX_PAYERS = 10_000
# An anonymous network pays so many times what a request costs: a crowd of them must not have most of a busy process.
ANONYMOUS_FACTOR = 8
# A process is crowded if, within a second, requests have used a third of the event loop's time and several payers have
# come. Each then has one place only: the steps of all requests that run delay each other.
_WINDOW_NS = 100_000_000
_BUSY_SHARE = 3
_CROWDED_NS = 1_000_000_000
_BUSY = "The service is busy, and you have used your share of it. Wait for the number of seconds in Retry-After."


class RequestPayer(NamedTuple):
    name: str
    factor: int = 1


class _Payer:
    __slots__ = ("is_queued", "running", "tag", "waiting")

    def __init__(self, tag: int) -> None:
        self.tag = tag
        self.running = 0
        # Whether each needs a place.
        self.waiting: deque[tuple[asyncio.Future[None], bool]] = deque()
        self.is_queued = False


class Admission:
    """`places` requests run at a time, `per_payer` of one payer; others wait for at most `wait_s`.

    Requests without a place need no connection of their own, such as those of group commits. They only wait while
    others wait whose share is not used up. In a crowded process, a payer has one place.
    """

    def __init__(self, places: int, per_payer: int, wait_s: float) -> None:
        self._places = places
        self._per_payer = per_payer
        self._timer: SharedTimer[asyncio.Future[None]] = SharedTimer(wait_s, _expire)
        self._running = 0
        # How long requests have kept the event loop busy since the beginning of the window.
        self._loop_ns = 0
        self._window_from = perf_counter_ns()
        self._busy_until = 0
        self._newest: str | None = None
        self._shared_until = 0
        self._tag = 0
        self._payers: dict[str, _Payer] = {}
        # The payers whose requests wait, by tag; one that was charged meanwhile has a higher tag than it says.
        self._queue: list[tuple[int, str]] = []

    async def enter(self, name: str, *, takes_place: bool = True) -> None:
        """Raises RateLimited."""
        payer = self._payers.get(name)
        if payer is None:
            payer = self._add(name)
        if takes_place:
            is_free = self._running < self._places and payer.running < self._limit() and not payer.waiting
        else:
            is_free = not self._queue or payer.tag <= self._tag
        if name != self._newest:
            if self._newest is not None:
                self._shared_until = perf_counter_ns() + _CROWDED_NS
            self._newest = name
        if is_free:
            self._begin(payer, takes_place=takes_place)
        else:
            await self._wait(name, payer, takes_place=takes_place)

    def leave(self, name: str, cost: int, *, loop_ns: int = 0, takes_place: bool = True) -> None:
        """`cost` is in nanoseconds, `loop_ns` those of the event loop."""
        # One without a place may have been forgotten meanwhile.
        payer = self._payers.get(name) or self._add(name)
        payer.tag += cost
        self._loop_ns += loop_ns
        payer.running -= takes_place
        self._running -= takes_place
        if payer.waiting:
            self._push(name, payer)
        if self._queue:
            self._serve()

    async def _wait(self, name: str, payer: _Payer, *, takes_place: bool) -> None:
        if len(payer.waiting) >= MAX_WAITING:
            raise _busy()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        payer.waiting.append((turn, takes_place))
        if payer.running < self._limit() or not takes_place:
            self._push(name, payer)
        limit = self._timer.start(turn)
        try:
            await turn
        except TimeoutError as error:
            raise _busy() from error
        except asyncio.CancelledError:
            # It may have been admitted just before.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(name, 0, takes_place=takes_place)
            raise
        finally:
            limit.end()

    def _limit(self) -> int:
        """The places of one payer."""
        now = perf_counter_ns()
        if (passed := now - self._window_from) > _WINDOW_NS:
            if self._loop_ns * _BUSY_SHARE > passed:
                self._busy_until = now + _CROWDED_NS
            self._loop_ns, self._window_from = 0, now
        return 1 if now < self._busy_until and now < self._shared_until else self._per_payer

    def _serve(self) -> None:
        limit = self._limit()
        while self._queue and self._running < self._places:
            tag, name = heappop(self._queue)
            payer = self._payers[name]
            payer.is_queued = False
            if payer.tag > tag:
                self._push(name, payer)
                continue
            while payer.waiting and payer.waiting[0][0].done():
                payer.waiting.popleft()
            if not payer.waiting or (payer.waiting[0][1] and payer.running >= limit):
                continue
            turn, takes_place = payer.waiting.popleft()
            self._begin(payer, takes_place=takes_place)
            turn.set_result(None)
            if payer.waiting:
                self._push(name, payer)

    def _begin(self, payer: _Payer, *, takes_place: bool) -> None:
        self._tag = payer.tag = max(self._tag, payer.tag)
        payer.running += takes_place
        self._running += takes_place

    def _push(self, name: str, payer: _Payer) -> None:
        if not payer.is_queued:
            payer.is_queued = True
            heappush(self._queue, (payer.tag, name))

    def _add(self, name: str) -> _Payer:
        if len(self._payers) >= _MAX_PAYERS:
            self._payers = {
                each: payer
                for each, payer in self._payers.items()
                if payer.running or payer.waiting or payer.is_queued or payer.tag > self._tag
            }
        payer = self._payers[name] = _Payer(self._tag)
        return payer


def _busy() -> RateLimited:
    return rate_limited(Quota(allowed=False, remaining=0, retry_after_s=_RETRY_AFTER_S), _BUSY)


def _expire(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(TimeoutError())
