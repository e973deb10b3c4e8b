"""Group commit: items that arrive while one transaction commits are written together by the next.

A commit costs a disk flush and several round trips. Many items that share one cost little more than one item alone.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum, auto
from typing import Any, Generic, TypeVar

import asyncpg
import structlog

from tonne.platform.db.errors import is_database_unavailable
from tonne.platform.process.cost import run_shared
from tonne.platform.process.shared_timer import SharedTimer
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.instruments import CounterFamily, HistogramFamily, Metric

MAX_BATCH = 64
# A lane that has, or had a moment ago, more items than this is written apart while others have items, in batches of
# this size: its items would delay theirs, and its lock is often held.
CROWDED = 16
SHARED_FOR_S = 1.0
# Items of one lane that wait. More are refused at once: they would only wait for their time limit.
MAX_WAITING = 500
# An item that waits for a lock for longer no longer delays the items of others.
LOCK_WITHIN_S = 0.1
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)

Item = TypeVar("Item")
Result = TypeVar("Result")
_log = structlog.get_logger()


class QueueTimeout(asyncpg.InterfaceError):
    """An item was not taken into a batch in time."""


class QueueFull(Exception):
    """Too many items of the same lane wait."""


class NotWritten(Enum):
    """Why the transaction of a batch did not write an item. It is then written alone."""

    # Something about the item itself, which the attempt alone reports.
    NEEDS_OWN_ATTEMPT = auto()
    # A lock that it needs was not available within LOCK_WITHIN_S.
    LOCKED = auto()


class _Member(Generic[Item, Result]):
    __slots__ = ("context", "item", "lane", "result", "span")

    def __init__(self, lane: str, item: Item, result: "asyncio.Future[Result]") -> None:
        self.lane = lane
        self.item = item
        self.result = result
        # The context of the request: what is logged while its item is written alone carries its id.
        self.context = contextvars.copy_context()
        self.span = tracing.current()


class GroupCommit(Generic[Item, Result]):
    """One batch is written at a time, in a task of its own: a request that is cancelled does not stop the others.

    A lane names the lock that items share, such as a stream of events. Lanes take turns if more items wait than fit
    into a batch. Items of a lane whose lock is held elsewhere wait until those that left a batch for it are done.
    Lanes with many items have a batch at a time of their own.
    """

    def __init__(
        self,
        write_batch: Callable[[Sequence[Item]], Awaitable[Sequence[Result | NotWritten]]],
        write_alone: Callable[[Item], Coroutine[Any, Any, Result]],
        *,
        wait_s: float,
    ) -> None:
        """`write_batch` returns, for each item, its result or why it was not written."""
        self._write_batch = write_batch
        self._write_alone = write_alone
        self._wait_s = wait_s
        self._timer: SharedTimer[_Member[Item, Result]] = SharedTimer(wait_s, self._expire)
        self._waiting: dict[str, deque[_Member[Item, Result]]] = {}
        # How many tasks a lane waits for: its batch, and items that are written alone because of its lock.
        self._locked: dict[str, int] = {}
        # The lane of the newest item, and until when several lanes are in use.
        self._newest: str | None = None
        self._shared_until = 0.0
        # Until when each is one.
        self._crowded: dict[str, float] = {}
        # Batches that are being written, or about to be: of crowded lanes, of the others.
        self._busy: set[bool] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # Without a request: a batch belongs to several.
        self._context = contextvars.copy_context()
        self._sizes = HistogramFamily("tonne_order_batch_size", "Orders placed in one transaction.", bounds=_SIZES)
        self._left = CounterFamily(
            "tonne_order_batch_left_total", "Orders that left a batch and were placed alone.", "reason"
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return self._sizes, self._left

    async def write(self, lane: str, item: Item) -> Result:
        """The result, after the commit. Raises QueueFull, and QueueTimeout if no batch took the item in time."""
        loop = asyncio.get_running_loop()
        if lane != self._newest:
            if self._newest is not None:
                self._shared_until = loop.time() + SHARED_FOR_S
            self._newest = lane
        member: _Member[Item, Result] = _Member(lane, item, loop.create_future())
        waiting = self._waiting.get(lane)
        if waiting is None:
            waiting = self._waiting[lane] = deque()
        elif len(waiting) >= MAX_WAITING:
            raise QueueFull
        waiting.append(member)
        self._start()
        limit = self._timer.start(member)
        try:
            return await member.result
        finally:
            limit.end()

    async def write_apart(self, item: Item) -> Result:
        """Write an item that must not be part of a batch."""
        self._sizes.of().observe(1)
        return await self._write_alone(item)

    async def drain(self) -> None:
        """Until everything that waits is written."""
        while self._busy or self._tasks:
            await (asyncio.wait(self._tasks) if self._tasks else asyncio.sleep(0))

    def _expire(self, member: _Member[Item, Result]) -> None:
        """Only while it waits: the statements of a batch have time limits of their own."""
        if member in self._waiting.get(member.lane, ()) and not member.result.done():
            member.result.set_exception(QueueTimeout(f"the request was not processed within {self._wait_s} s"))

    def _start(self) -> None:
        for crowded in (False, True):
            if crowded not in self._busy:
                self._busy.add(crowded)
                # Not at once: all requests that are ready now share the first batch.
                asyncio.get_running_loop().call_soon(self._start_next, crowded, context=self._context)

    def _start_next(self, crowded: bool) -> None:
        batch = self._take(crowded=crowded)
        if not batch:
            self._busy.discard(crowded)
            return
        self._sizes.of().observe(len(batch))
        if len(batch) > 1:
            task = self._start_task(self._run_batch(batch), self._context.copy())
            for lane in {member.lane for member in batch}:
                self._lock(lane, task)
            task.add_done_callback(lambda _: self._start_next(crowded))
            return
        # One item needs fewer statements alone. The next batch waits for it, but not for a lock.
        task = self._start_task(self._run_alone(batch[0]), batch[0].context)
        turn = _Turn(lambda: self._start_next(crowded))
        task.add_done_callback(lambda _: turn.end())
        asyncio.get_running_loop().call_later(LOCK_WITHIN_S, self._end_turn, turn, batch[0].lane, task)

    def _end_turn(self, turn: "_Turn", lane: str, task: "asyncio.Task[None]") -> None:
        if not task.done():
            self._lock(lane, task)
            turn.end()

    def _start_task(self, work: Coroutine[Any, Any, None], context: contextvars.Context) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _take(self, *, crowded: bool) -> list[_Member[Item, Result]]:
        """The next batch: one item of each lane in turn. Requests that no longer wait are skipped."""
        batch: list[_Member[Item, Result]] = []
        now = asyncio.get_running_loop().time()
        if now < self._shared_until:
            self._crowded |= {
                lane: now + SHARED_FOR_S for lane, waiting in self._waiting.items() if len(waiting) > CROWDED
            }
        self._crowded = {lane: until for lane, until in self._crowded.items() if now < until}
        lanes = [lane for lane in self._waiting if lane not in self._locked and (lane in self._crowded) == crowded]
        size = CROWDED if crowded else MAX_BATCH
        while lanes and len(batch) < size:
            for lane in lanes[: size - len(batch)]:
                member = self._waiting[lane].popleft()
                if not member.result.done():
                    batch.append(member)
            lanes = [lane for lane in lanes if self._forget_if_empty(lane)]
        # Lanes that got less than the others in this batch are the first of the next one.
        for member in batch:
            if (waiting := self._waiting.pop(member.lane, None)) is not None:
                self._waiting[member.lane] = waiting
        return batch

    def _forget_if_empty(self, lane: str) -> bool:
        """Whether the lane has more items."""
        if self._waiting[lane]:
            return True
        del self._waiting[lane]
        return False

    async def _run_batch(self, batch: Sequence[_Member[Item, Result]]) -> None:
        """In a trace of its own: it belongs to several requests. The traces are linked in both directions."""
        requests = [context for member in batch if (context := member.span.context) is not None]
        with tracing.span("group commit", attributes={"tonne.items": len(batch)}, links=requests) as span:
            for member in batch:
                member.span.link(span.context)
            await run_shared(self._write_members(batch), [member.context for member in batch])

    async def _write_members(self, batch: Sequence[_Member[Item, Result]]) -> None:
        try:
            results = await self._write_batch([member.item for member in batch])
        except Exception as error:  # noqa: BLE001 - every member gets an answer
            if is_database_unavailable(error):
                # The commit may have succeeded, so nothing is tried again.
                for member in batch:
                    _fail(member, error)
                return
            # One item that the database refuses must not fail the others.
            _log.warning("batch_failed", failure_event="order_not_placed", rows=len(batch), error=repr(error))
            results = [NotWritten.NEEDS_OWN_ATTEMPT] * len(batch)
        for member, result in zip(batch, results, strict=True):
            if not isinstance(result, NotWritten):
                if not member.result.done():
                    member.result.set_result(result)
                continue
            self._left.inc(result.name.lower())
            task = self._start_task(self._run_alone(member), member.context)
            if result is NotWritten.LOCKED:
                self._lock(member.lane, task)

    async def _run_alone(self, member: _Member[Item, Result]) -> None:
        try:
            result = await run_shared(self._write_alone(member.item), [member.context])
        except Exception as error:  # noqa: BLE001 - the member gets it
            _fail(member, error)
        else:
            if not member.result.done():
                member.result.set_result(result)

    def _lock(self, lane: str, task: "asyncio.Task[None]") -> None:
        """Keep the lane out of batches until the task is done."""
        self._locked[lane] = self._locked.get(lane, 0) + 1

        def unlock(_: "asyncio.Task[None]") -> None:
            self._locked[lane] -= 1
            if not self._locked[lane]:
                del self._locked[lane]
                self._start()

        task.add_done_callback(unlock)


class _Turn:
    """The turn of an item that is written alone. It ends once: when the item is written, or after LOCK_WITHIN_S."""

    __slots__ = ("_start_next",)

    def __init__(self, start_next: Callable[[], None]) -> None:
        self._start_next: Callable[[], None] | None = start_next

    def end(self) -> None:
        start_next, self._start_next = self._start_next, None
        if start_next is not None:
            start_next()


def _fail(member: _Member[Any, Any], error: Exception) -> None:
    if not member.result.done():
        member.result.set_exception(error)
