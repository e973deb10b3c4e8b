"""Admits requests so that all who pay for them, organisations and networks, get the same share of a busy process.

Start-time fair queueing: each payer has a tag, which grows with what its requests cost, and the waiting request of the
payer with the lowest tag is next. A payer that was idle starts at the tag of the request that was admitted last: it
waits for no other's past, and saves nothing up.
"""

import asyncio
from collections import deque
from contextlib import suppress
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
# How long a step may wait for those of other requests. If it waits for longer, fewer requests run at a time.
_DELAY_NS = 3_000_000
_LOOK_EVERY_NS = 10_000_000
# The weight of the newest cost is one in so many.
_EXPECTED_OF = 8
BUSY = "The service is busy, and you have used your share of it. Wait for the number of seconds in Retry-After."


class RequestPayer(NamedTuple):
    name: str
    factor: int = 1


class _Payer:
    __slots__ = ("expected", "is_queued", "running", "tag", "waiting")

    def __init__(self, tag: int) -> None:
        self.tag = tag
        # What its requests have cost of late. A request is charged that when it begins.
        self.expected = 0
        self.running = 0
        # Whether each needs a place.
        self.waiting: deque[tuple[asyncio.Future[int], bool]] = deque()
        self.is_queued = False

    @property
    def is_busy(self) -> bool:
        return bool(self.running or self.waiting or self.is_queued)


class Admission:
    """`places` requests run at a time, `per_payer` of one payer; others wait for at most `wait_s`.

    Requests without a place need no connection of their own, such as those of group commits. They only wait while
    others wait whose share is not used up. In a crowded process, a payer has one place.
    """

    def __init__(self, places: int, per_payer: int, wait_s: float) -> None:
        self._places = places
        self._per_payer = per_payer
        self._timer: SharedTimer[asyncio.Future[int]] = SharedTimer(wait_s, _expire)
        self._running = 0
        self._places_now = places
        self._delay_ns = 0.0
        self._looked_at = 0
        self._is_to_look = False
        self._tag = 0
        self._payers: dict[str, _Payer] = {}
        self._forget_at = _MAX_PAYERS
        # The payers whose requests wait, by tag; one that was charged meanwhile has a higher tag than it says.
        self._queue: list[tuple[int, str]] = []

    async def enter(self, name: str, *, takes_place: bool = True) -> int:
        """What the request is expected to cost, for `leave`. Raises RateLimited."""
        self._look_soon()
        payer = self._payers.get(name)
        if payer is None:
            payer = self._add(name)
        if takes_place:
            is_free = self._running < self._places_now and payer.running < self._limit() and not payer.waiting
        else:
            is_free = not self._queue or payer.tag <= self._tag
        if is_free:
            return self._begin(payer, takes_place=takes_place)
        return await self._wait(name, payer, takes_place=takes_place)

    def leave(self, name: str, cost: int, expected: int, *, has_place: bool = True) -> None:
        """Both in nanoseconds."""
        # One without a place may have been forgotten meanwhile.
        payer = self._payers.get(name) or self._add(name)
        payer.tag += cost - expected
        payer.expected += (cost - payer.expected) // _EXPECTED_OF
        self._serve_after(name, payer, has_place=has_place)

    def give_back(self, name: str) -> None:
        """The place of a request that goes on without one."""
        self._serve_after(name, self._payers[name], has_place=True)

    def _serve_after(self, name: str, payer: _Payer, *, has_place: bool) -> None:
        payer.running -= has_place
        self._running -= has_place
        if payer.waiting:
            self._push(name, payer)
        if self._queue:
            self._serve()

    async def _wait(self, name: str, payer: _Payer, *, takes_place: bool) -> int:
        if len(payer.waiting) >= MAX_WAITING:
            raise _busy()
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        payer.waiting.append((turn, takes_place))
        if payer.running < self._limit() or not takes_place:
            self._push(name, payer)
            self._look_later()
        limit = self._timer.start(turn)
        try:
            return await turn
        except TimeoutError as error:
            raise _busy() from error
        except asyncio.CancelledError:
            # It may have been admitted just before.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave(name, 0, turn.result(), has_place=takes_place)
            raise
        finally:
            limit.end()
            # A request that was given up does not count as waiting.
            if turn.cancelled() or turn.exception():
                with suppress(ValueError):
                    payer.waiting.remove((turn, takes_place))

    def _limit(self) -> int:
        """The places of one payer."""
        return min(self._per_payer, max(1, self._places_now // 2))

    def _look_soon(self) -> None:
        if (now := perf_counter_ns()) - self._looked_at > _LOOK_EVERY_NS:
            self._looked_at = now
            asyncio.get_running_loop().call_soon(self._look, now)

    def _look(self, since: int) -> None:
        """A callback of the event loop, which waits as each step does."""
        self._delay_ns += (perf_counter_ns() - since - self._delay_ns) / 4
        if self._delay_ns > _DELAY_NS:
            self._places_now = max(1, self._places_now - 1)
        else:
            self._places_now = min(self._places, self._places_now + 1)
            self._serve()

    def _look_later(self) -> None:
        """Those that run may wait for something else for long, and no other request may come."""
        if self._queue and not self._is_to_look:
            self._is_to_look = True
            asyncio.get_running_loop().call_later(2 * _LOOK_EVERY_NS / 1e9, self._look_again)

    def _look_again(self) -> None:
        self._is_to_look = False
        self._look_soon()
        self._look_later()

    def _serve(self) -> None:
        limit = self._limit()
        while self._queue and self._running < self._places_now:
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
            turn.set_result(self._begin(payer, takes_place=takes_place))
            if payer.waiting:
                self._push(name, payer)

    def _begin(self, payer: _Payer, *, takes_place: bool) -> int:
        self._tag = max(self._tag, payer.tag)
        payer.tag = self._tag + payer.expected
        payer.running += takes_place
        self._running += takes_place
        return payer.expected

    def _push(self, name: str, payer: _Payer) -> None:
        if not payer.is_queued:
            payer.is_queued = True
            heappush(self._queue, (payer.tag, name))

    def _add(self, name: str) -> _Payer:
        if len(self._payers) >= self._forget_at:
            self._forget()
        payer = self._payers[name] = _Payer(self._tag)
        return payer

    def _forget(self) -> None:
        """The idle payers that have used least. Seldom, because each of a crowd may send one request only."""
        idle = (each for each in self._payers.items() if not each[1].is_busy and each[1].tag > self._tag)
        kept = sorted(idle, key=lambda each: -each[1].tag)[: _MAX_PAYERS // 2]
        self._payers = {name: payer for name, payer in self._payers.items() if payer.is_busy} | dict(kept)
        self._forget_at = max(_MAX_PAYERS, len(self._payers) + _MAX_PAYERS // 2)


def _busy() -> RateLimited:
    return rate_limited(Quota(allowed=False, remaining=0, retry_after_s=_RETRY_AFTER_S), BUSY)


def _expire(turn: asyncio.Future[int]) -> None:
    if not turn.done():
        turn.set_exception(TimeoutError())
