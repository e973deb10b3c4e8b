"""Queues for work that takes long: bounded, and fair to those who ask."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import ParamSpec, TypeVar

from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.rate_limit import Quota, rate_limited
from tonne.platform.process.cost import COST, give_place_back, in_thread
from tonne.platform.values.language import N_

P = ParamSpec("P")
T = TypeVar("T")
# Threads hold the interpreter for 1 ms at a time, for which the event loop waits.
AT_ONCE = 2
MAX_WAITING = 40
RETRY_AFTER_S = 5


class Turns:
    """A queue per asker, served in rotation: who asks once waits for at most one turn of each of the others.

    If all places are taken, the asker with the most of them loses the last one to a newcomer with fewer.
    """

    def __init__(self, at_once: int, max_waiting: int, message: str) -> None:
        """`message` is for those who are refused."""
        self._free = at_once
        self._max_waiting = max_waiting
        self._message = message
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def take(self, asker: str) -> AsyncIterator[None]:
        """Raises RateLimited at once, or as soon as the place is lost.

        What runs in a thread delays no other request of the asker, which may have one place only.
        """
        give_place_back()
        if self._free:
            self._free -= 1
        else:
            await self._wait(asker)
        try:
            yield
        finally:
            self._hand_over()

    async def _wait(self, asker: str) -> None:
        if sum(map(len, self._queues.values())) >= self._max_waiting:
            longest = max(self._queues.values(), key=len)
            if len(longest) <= len(self._queues.get(asker, ())) + 1:
                raise self._busy()
            last = longest.pop()
            if not last.done():
                last.set_exception(self._busy())
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(asker, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # It may have been handed over just before the cancellation.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._hand_over()
            raise

    def _hand_over(self) -> None:
        while self._queues:
            asker, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[asker] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _busy(self) -> RateLimited:
        return rate_limited(Quota(allowed=False, remaining=0, retry_after_s=RETRY_AFTER_S), self._message)


_WORK = Turns(AT_ONCE, MAX_WAITING, N_("Too much of this is asked for at once. Wait a few seconds, then try again."))


async def in_turn(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what takes a request more than 20 ms, such as a PDF or a picture, in a thread. Raises RateLimited.

    All organisations and networks take turns. Work without a request, such as that of the worker, does not wait.
    """
    cost = COST.get()
    if cost is None:
        return await asyncio.to_thread(function, *args, **kwargs)
    async with _WORK.take(cost.payer):
        return await in_thread(function, *args, **kwargs)
