"""Concurrent lookups of one key share one query.

When an entry of a cache has expired, or a process has just started, a burst of requests would otherwise run as many
queries as there are requests, and use up all database connections for the same answer.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """Each lookup runs in a task of its own: a request that is cancelled does not stop it for the others."""

    def __init__(self) -> None:
        self._running: dict[K, asyncio.Task[V]] = {}

    async def run(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The result of `look_up`, or of a lookup of the same key that is running. Waiters get the same exception."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.get_running_loop().create_task(look_up())
            task.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.shield(task)

    def forget(self, key: K) -> None:
        """Later callers look it up again, even if a lookup is running: what it finds may be outdated."""
        self._running.pop(key, None)

    def _end(self, key: K, task: "asyncio.Task[V]") -> None:
        if self._running.get(key) is task:
            del self._running[key]
        if not task.cancelled():
            task.exception()  # without waiters, asyncio would log it as never retrieved
