"""A queue of tasks that wait for something that another task hands over."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class WaitQueue(Generic[T]):
    """Serves waiters in order, each within `timeout_s`."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waiting: deque[asyncio.Future[T]] = deque()

    async def wait(self, give_back: Callable[[T], object]) -> T:
        """Raises TimeoutError. `give_back` gets the value that is handed over to a waiter that no longer waits."""
        turn: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await turn
        except BaseException:
            # The value may have been handed over just before the timeout or cancellation.
            if turn.done() and not turn.cancelled():
                give_back(turn.result())
            raise

    def hand_over(self, value: T) -> bool:
        """Whether a waiter took it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(value)
                return True
        return False
