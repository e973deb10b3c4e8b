"""Waiting: one timer for many waits of equal length, and a queue of tasks that wait for what another hands over."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Wait(Generic[T]):
    """Ends by `end`, or when its time is over."""

    __slots__ = ("due_at", "is_over", "subject")

    def __init__(self, due_at: float, subject: T) -> None:
        self.due_at = due_at
        # None once it has ended.
        self.subject: T | None = subject
        self.is_over = False

    def end(self) -> None:
        self.subject = None


class SharedTimer(Generic[T]):
    """Calls `on_timeout` with the subject of each wait that is not ended within `delay_s`.

    Nearly every request has such waits, and nearly all of them end in time. `loop.call_later` costs several times as
    much. All waits are equally long, so the oldest is the next one due, and one timer of the loop is enough.
    """

    def __init__(self, delay_s: float, on_timeout: Callable[[T], object]) -> None:
        self._delay_s = delay_s
        self._on_timeout = on_timeout
        self._waits: deque[Wait[T]] = deque()
        # The loop whose timer is set; None if there is none.
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, subject: T) -> Wait[T]:
        loop = asyncio.get_running_loop()
        wait = Wait(loop.time() + self._delay_s, subject)
        self._forget_ended()
        self._waits.append(wait)
        if self._loop is not loop:
            self._loop = loop
            loop.call_at(wait.due_at, self._run)
        return wait

    def _forget_ended(self) -> None:
        waits = self._waits
        while waits and waits[0].subject is None:
            waits.popleft()

    def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._forget_ended()
        while self._waits and self._waits[0].due_at <= loop.time():
            wait = self._waits.popleft()
            subject = wait.subject
            if subject is not None:
                wait.is_over = True
                self._on_timeout(subject)
        self._forget_ended()
        if self._waits:
            loop.call_at(self._waits[0].due_at, self._run)
        else:
            self._loop = None


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
