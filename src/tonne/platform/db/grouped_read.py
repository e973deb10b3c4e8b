"""Grouped reads: requests that look up rows at the same moment share one statement.

A statement costs more for the connection and its round trip than for the row that it finds.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.group_commit import QueueTimeout
from tonne.platform.process.cost import run_shared
from tonne.platform.process.shared_timer import SharedTimer
from tonne.platform.process.telemetry import tracing

MAX_KEYS = 64
# The keys of one statement are looked up while those of the next one are sent.
MAX_STATEMENTS = 2

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Lookup(Generic[K, V]):
    __slots__ = ("context", "key", "result", "span")

    def __init__(self, key: K, result: "asyncio.Future[V | None]") -> None:
        self.key = key
        self.result = result
        self.context = contextvars.copy_context()
        self.span = tracing.current()


class GroupedRead(Generic[K, V]):
    """All lookups of one turn of the event loop, and those that wait for a statement, share the next one.

    It never joins a statement that has begun, so each lookup finds what was committed before it. A statement runs in a
    task of its own: a request that is cancelled does not stop the others. If it fails, all its lookups do.
    """

    def __init__(
        self,
        database: Database,
        read: Callable[[Connection, Sequence[K]], Awaitable[Mapping[K, V]]],
        *,
        wait_s: float,
    ) -> None:
        """`read` returns what it finds by key. A key must name all that limits who may see it, such as the account."""
        self._database = database
        self._read = read
        self._wait_s = wait_s
        self._timer: SharedTimer[_Lookup[K, V]] = SharedTimer(wait_s, self._expire)
        self._waiting: deque[_Lookup[K, V]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._is_due = False
        # Without a request: a statement belongs to several.
        self._context = contextvars.copy_context()

    async def find(self, key: K) -> V | None:
        """Raises QueueTimeout if no statement took the key in time."""
        lookup: _Lookup[K, V] = _Lookup(key, asyncio.get_running_loop().create_future())
        self._waiting.append(lookup)
        self._start_soon()
        limit = self._timer.start(lookup)
        try:
            return await lookup.result
        finally:
            limit.end()

    def _expire(self, lookup: _Lookup[K, V]) -> None:
        """Only while it waits: statements have time limits of their own."""
        if lookup in self._waiting and not lookup.result.done():
            lookup.result.set_exception(QueueTimeout(f"the request was not processed within {self._wait_s} s"))

    def _start_soon(self) -> None:
        """Not at once: all requests that are ready now share the statement."""
        if self._waiting and not self._is_due and len(self._running) < MAX_STATEMENTS:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._start, context=self._context)

    def _start(self) -> None:
        self._is_due = False
        group: list[_Lookup[K, V]] = []
        while self._waiting and len(group) < MAX_KEYS:
            lookup = self._waiting.popleft()
            # Requests that no longer wait are skipped.
            if not lookup.result.done():
                group.append(lookup)
        if group:
            context = group[0].context if len(group) == 1 else self._context.copy()
            task = asyncio.get_running_loop().create_task(self._run(group), context=context)
            self._running.add(task)
            task.add_done_callback(self._end)
        self._start_soon()

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        self._start_soon()

    async def _run(self, group: Sequence[_Lookup[K, V]]) -> None:
        """A statement of several requests has a trace of its own. The traces are linked in both directions."""
        keys, contexts = list({lookup.key for lookup in group}), [lookup.context for lookup in group]
        try:
            if len(group) == 1:
                found = await run_shared(self._database.run(self._read, keys), contexts)
            else:
                requests = [context for lookup in group if (context := lookup.span.context) is not None]
                with tracing.span("grouped read", attributes={"tonne.items": len(group)}, links=requests) as span:
                    for lookup in group:
                        lookup.span.link(span.context)
                    found = await run_shared(self._database.run(self._read, keys), contexts)
        except Exception as error:  # noqa: BLE001 - every request gets an answer
            for lookup in group:
                if not lookup.result.done():
                    lookup.result.set_exception(error)
        else:
            for lookup in group:
                if not lookup.result.done():
                    lookup.result.set_result(found.get(lookup.key))
