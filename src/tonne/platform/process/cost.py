"""What a request costs: the time of its steps on the event loop, that of its threads, and that of its connections.

Nothing else runs on the loop during a step, so its time is what others wait for. The clock of CPU time would take a
system call of a microsecond, several times per request.
What several requests share, such as a group commit, is divided among them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import Context, ContextVar
from time import perf_counter_ns, thread_time_ns
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Cost:
    """`payer` is who is charged. `give_back` gives the place of the request to another one; it needs none any more."""

    __slots__ = ("give_back", "ns", "payer")

    def __init__(self, payer: str = "", give_back: Callable[[], None] | None = None) -> None:
        self.ns = 0
        self.payer = payer
        self.give_back = give_back


COST: ContextVar[Cost | None] = ContextVar("cost", default=None)


class Metered(Generic[T]):
    """Awaits a coroutine and adds the time of each of its steps."""

    __slots__ = ("_coroutine", "_cost")

    def __init__(self, coroutine: Coroutine[Any, Any, T], cost: Cost) -> None:
        self._coroutine = coroutine
        self._cost = cost

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine, cost = self._coroutine, self._cost
        step: Callable[[Any], Any] = coroutine.send
        value: Any = None
        while True:
            started = perf_counter_ns()
            try:
                waits_for = step(value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                cost.ns += perf_counter_ns() - started
            try:
                step, value = coroutine.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001 - the coroutine gets it
                step, value = coroutine.throw, error


async def as_part(work: Coroutine[Any, Any, T]) -> T:
    """What a request does in a task of its own, which is charged to it."""
    cost = COST.get()
    return await (work if cost is None else Metered(work, cost))


def give_place_back() -> None:
    """Before a request waits for what is no connection, such as a card gateway: others are served meanwhile."""
    cost = COST.get()
    if cost is not None and cost.give_back is not None:
        give_back, cost.give_back = cost.give_back, None
        give_back()


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `asyncio.to_thread`, and the request is charged for it."""
    cost = COST.get()

    def charged() -> T:
        started = thread_time_ns()
        try:
            return function(*args, **kwargs)
        finally:
            if cost is not None:
                cost.ns += thread_time_ns() - started

    return await asyncio.to_thread(charged)


async def run_shared(work: Coroutine[Any, Any, T], contexts: Iterable[Context]) -> T:
    """Run what several requests share, and divide its cost among those whose contexts are given."""
    costs = [cost for context in contexts if (cost := context.get(COST)) is not None]
    shared = Cost()
    COST.set(shared)
    try:
        return await Metered(work, shared)
    finally:
        for each in costs:
            each.ns += shared.ns // len(costs)
