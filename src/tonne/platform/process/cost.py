"""What a request costs: the time of its steps on the event loop, and the time that it holds a database connection.

Nothing else runs on the loop during a step, so its time is what others wait for. The clock of CPU time would take a
system call of a microsecond, several times per request.
What several requests share, such as a group commit, is divided among them.
"""

from collections.abc import Callable, Coroutine, Generator, Iterable
from contextvars import Context, ContextVar
from time import perf_counter_ns
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Cost:
    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = 0


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
