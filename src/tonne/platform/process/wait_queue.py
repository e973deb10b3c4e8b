"""A queue of tasks that wait for something that another task hands over."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from tonne.platform.process.shared_timer import SharedTimer

T = TypeVar("T")


class WaitQueue(Generic[T]):
    """Serves waiters in order, each within `timeout_s`."""

    def __init__(self, timeout_s: float) -> None:
        self._timer: SharedTimer[asyncio.Future[T]] = SharedTimer(timeout_s, _expire)
        self._waiting: deque[asyncio.Future[T]] = deque()

    async def wait(self, release: Callable[[T], object]) -> T:
        """Raises TimeoutError. `release` gets the value that is handed over to a waiter that no longer waits."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[T] = loop.create_future()
        self._waiting.append(turn)
        # Under load every request waits: `asyncio.timeout` costs many times as much as this timer.
        limit = self._timer.start(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            # The value may have been handed over just before the cancellation.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                release(turn.result())
            raise
        finally:
            limit.end()

    def hand_over(self, value: T) -> bool:
        """Whether a waiter took it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(value)
                return True
        return False


def _expire(turn: asyncio.Future[T]) -> None:
    if not turn.done():
        turn.set_exception(TimeoutError())
