"""One timer of the event loop serves many waits of equal length."""

import asyncio

from tonne.platform.process.shared_timer import SharedTimer


async def test_a_wait_that_is_not_ended_times_out() -> None:
    timed_out: asyncio.Queue[str] = asyncio.Queue()
    timer = SharedTimer[str](0.01, timed_out.put_nowait)
    first, second = timer.start("first"), timer.start("second")
    assert [await timed_out.get(), await timed_out.get()] == ["first", "second"]
    assert first.is_over
    assert second.is_over


async def test_a_wait_that_was_ended_does_not_time_out() -> None:
    timed_out: asyncio.Queue[str] = asyncio.Queue()
    timer = SharedTimer[str](0.01, timed_out.put_nowait)
    ended = [timer.start(f"ended {number}") for number in range(3)]
    timer.start("left")
    for wait in ended:
        wait.end()
    assert await timed_out.get() == "left"
    assert not any(wait.is_over for wait in ended)
    assert timed_out.empty()


async def test_a_wait_that_starts_after_all_others_have_ended_times_out() -> None:
    timed_out: asyncio.Queue[str] = asyncio.Queue()
    timer = SharedTimer[str](0.01, timed_out.put_nowait)
    timer.start("first")
    assert await timed_out.get() == "first"
    timer.start("second")
    assert await timed_out.get() == "second"


async def test_a_wait_that_starts_while_another_times_out_gets_its_whole_time() -> None:
    timed_out: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    started = loop.time()

    def again(name: str) -> None:
        timed_out.put_nowait(name)
        if name == "first":
            timer.start("second")

    timer = SharedTimer[str](0.02, again)
    timer.start("first")
    assert [await timed_out.get(), await timed_out.get()] == ["first", "second"]
    assert loop.time() >= started + 0.04 - 0.005  # the resolution of the clock


def test_a_timer_outlives_the_event_loop_that_used_it() -> None:
    """Objects with such a timer are made before the loop, and in tests serve several."""
    running: list[asyncio.Future[str]] = []

    def finish(name: str) -> None:
        running[-1].set_result(name)

    timer = SharedTimer[str](0.01, finish)

    async def start() -> None:
        timer.start("first").end()

    async def wait() -> str:
        running.append(asyncio.get_running_loop().create_future())
        timer.start("second")
        return await running[-1]

    asyncio.run(start())
    assert asyncio.run(wait()) == "second"
