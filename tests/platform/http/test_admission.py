"""Every request is charged what it costs, and who has used more waits while others wait."""

import asyncio
import contextvars
import functools
import gc
import threading
import time

import pytest

from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits import admission, turns
from tonne.platform.http.limits.admission import Admission
from tonne.platform.process.cost import COST, Cost, Metered, run_shared

MS = 1_000_000


async def test_ten_requests_of_100_ms_and_a_thousand_of_1_ms_get_the_same_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "MAX_WAITING", 1000)
    shares = Admission(2, 1, 60)
    used = {"few": 0, "many": 0}
    differences = []

    async def request(payer: str, cost_ms: int) -> None:
        expected = await shares.enter(payer)
        await asyncio.sleep(0)
        used[payer] += cost_ms
        differences.append(abs(used["few"] - used["many"]))
        shares.leave(payer, cost_ms * MS, expected)

    # One place is taken, so that both wait for the other.
    await shares.enter("another")
    tasks = [asyncio.create_task(request("many", 1)) for _ in range(1000)]
    tasks += [asyncio.create_task(request("few", 100)) for _ in range(10)]
    await asyncio.gather(*tasks)
    assert used == {"few": 1000, "many": 1000}
    # At any time, they differ by no more than the largest request.
    assert max(differences) <= 100


async def test_a_request_ends_although_its_payer_was_forgotten_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_MAX_PAYERS", 3)
    shares = Admission(10, 5, 60)
    await shares.enter("placing", takes_place=False)
    for number in range(5):
        await shares.enter(f"network{number}")
        shares.leave(f"network{number}", 0, 0)
    shares.leave("placing", MS, 0, has_place=False)


async def test_a_crowd_that_sends_one_request_each_is_forgotten() -> None:
    """Nobody waits, so that no tag moves the start of newcomers on."""
    shares, costs_ms = Admission(10, 5, 60), list[float]()
    greedy = await shares.enter("greedy")
    shares.leave("greedy", 100 * MS, greedy)
    # The garbage of thousands of tests is not the cost of a request.
    gc.disable()
    try:
        for number in range(60_000):
            started = time.thread_time()
            shares.leave(f"network{number}", MS, await shares.enter(f"network{number}"))
            costs_ms.append(1000 * (time.thread_time() - started))
    finally:
        gc.enable()
    assert len(shares._payers) <= admission._MAX_PAYERS
    assert shares._payers["greedy"].tag == 100 * MS
    # What it takes to forget them, several times; another program may delay one of them.
    slowest = sorted(costs_ms)[-8:]
    assert slowest[0] < 20


async def test_who_was_idle_does_not_wait_for_those_who_have_used_much() -> None:
    shares = Admission(1, 1, 60)
    await shares.enter("greedy")
    order = []

    async def request(payer: str) -> None:
        expected = await shares.enter(payer)
        order.append(payer)
        shares.leave(payer, MS, expected)

    tasks = [asyncio.create_task(request("greedy")) for _ in range(5)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(request("honest")))
    await asyncio.sleep(0)
    shares.leave("greedy", 100 * MS, 0)
    await asyncio.gather(*tasks)
    assert order[0] == "honest"


async def test_a_queue_is_bounded_in_length_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_WAITING", 1)
    shares = Admission(1, 1, 0.01)
    await shares.enter("one")
    waiting = asyncio.create_task(shares.enter("one"))
    await asyncio.sleep(0)
    with pytest.raises(RateLimited) as refused:
        await shares.enter("one")
    assert refused.value.headers["Retry-After"]
    with pytest.raises(RateLimited):
        await waiting
    shares.leave("one", MS, 0)
    await shares.enter("two")
    cancelled = asyncio.create_task(shares.enter("one"))
    await asyncio.sleep(0)
    shares.leave("two", MS, 0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert shares._running == 0


async def look(shares: Admission, delay_ms: int) -> None:
    """How long each of many steps waited."""
    shares._looked_at = now = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission, "perf_counter_ns", lambda: now)
        for _ in range(30):
            now += 11 * MS
            shares._look_soon()
            now += delay_ms * MS
            await asyncio.sleep(0)


async def admitted(shares: Admission, name: str, number: int) -> int:
    """How many of them are admitted at once."""
    tasks = [asyncio.create_task(shares.enter(name)) for _ in range(number)]
    for _ in range(5):
        await asyncio.sleep(0)
    count = [task.cancel() for task in tasks].count(False)
    await asyncio.gather(*tasks, return_exceptions=True)
    for _ in range(count):
        shares.leave(name, 0, 0)
    return count


async def test_while_steps_delay_each_other_fewer_requests_run_at_a_time() -> None:
    shares = Admission(10, 5, 60)
    await look(shares, delay_ms=0)
    assert await admitted(shares, "tenant", 10) == 5
    await look(shares, delay_ms=20)
    assert await admitted(shares, "tenant", 10) == 1
    await shares.enter("another")
    assert await admitted(shares, "tenant", 10) == 0
    shares.leave("another", 0, 0)
    await look(shares, delay_ms=0)
    assert await admitted(shares, "tenant", 10) == 5


async def test_the_only_request_that_runs_may_wait_for_something_for_long() -> None:
    """No other comes, and none ends."""
    shares = Admission(10, 5, 60)
    await look(shares, delay_ms=20)
    await shares.enter("slow")
    await asyncio.wait_for(shares.enter("another"), 60)


async def test_requests_that_were_given_up_do_not_count_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_WAITING", 2)
    shares = Admission(1, 1, 0.01)
    await shares.enter("one")
    for _ in range(2):
        given_up = asyncio.create_task(shares.enter("one"))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        with pytest.raises(RateLimited):
            await shares.enter("one")
    waiting = asyncio.create_task(shares.enter("one"))
    await asyncio.sleep(0)
    shares.leave("one", MS, 0)
    await waiting


async def test_a_request_is_charged_what_it_is_expected_to_cost_when_it_begins() -> None:
    """Otherwise many of them would begin before the first is charged."""
    shares = Admission(1, 1, 60)
    for _ in range(50):
        shares.leave("costly", 100 * MS, await shares.enter("costly"))
    # Another one uses as much, so that both are equal again.
    for _ in range(2):
        shares.leave("another", 300 * MS, await shares.enter("another"))
    busy = await shares.enter("busy")
    waiting = asyncio.create_task(shares.enter("waiting"))
    await asyncio.sleep(0)
    order, ends = [], asyncio.Event()

    async def request(payer: str) -> None:
        expected = await shares.enter(payer, takes_place=False)
        order.append(payer)
        await ends.wait()
        shares.leave(payer, 100 * MS, expected, has_place=False)

    tasks = [asyncio.create_task(request(payer)) for payer in ("costly", "costly", "costly", "honest")]
    await asyncio.sleep(0)
    assert order == ["costly", "honest"]
    ends.set()
    shares.leave("busy", MS, busy)
    shares.leave("waiting", MS, await waiting)
    await asyncio.gather(*tasks)
    assert order == ["costly", "honest", "costly", "costly"]


async def test_requests_without_a_place_wait_only_while_others_wait() -> None:
    shares = Admission(1, 1, 60)
    await shares.enter("busy")
    for _ in range(2):
        await shares.enter("greedy", takes_place=False)
    shares.leave("greedy", 100 * MS, 0, has_place=False)
    waiting = asyncio.create_task(shares.enter("other"))
    await asyncio.sleep(0)
    greedy = asyncio.create_task(shares.enter("greedy", takes_place=False))
    await asyncio.wait_for(shares.enter("honest", takes_place=False), 60)
    await asyncio.sleep(0)
    assert not greedy.done()
    shares.leave("busy", MS, 0)
    await waiting
    assert not greedy.done()
    shares.leave("other", MS, 0)
    await greedy


async def test_steps_and_shared_work_are_measured() -> None:
    def spin(ns: int) -> None:
        until = time.thread_time_ns() + ns
        while time.thread_time_ns() < until:
            pass

    async def work() -> str:
        spin(5 * MS)
        await asyncio.sleep(0.01)
        try:
            await asyncio.wait_for(asyncio.sleep(60), 0.001)
        except TimeoutError:
            spin(5 * MS)
        return "done"

    cost = Cost()
    assert await Metered(work(), cost) == "done"
    # Waiting is free.
    assert 10 * MS <= cost.ns < 30_000 * MS
    members, contexts = [Cost(), Cost()], []
    for each in members:
        contexts.append(context := contextvars.copy_context())
        context.run(COST.set, each)

    async def shared() -> None:
        spin(6 * MS)

    await run_shared(shared(), contexts)
    assert members[0].ns == members[1].ns >= 3 * MS
    with pytest.raises(ZeroDivisionError):
        await Metered(fails(), cost)


async def fails() -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError


async def test_work_in_threads_is_charged_takes_turns_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_WORK", turns.Turns(1, 1, "busy"))
    freed, go = list[str](), threading.Event()
    costs = {payer: Cost(payer, functools.partial(freed.append, payer)) for payer in ("first", "second", "third")}

    def work() -> None:
        go.wait()
        sum(range(100_000))

    async def request(payer: str) -> None:
        COST.set(costs[payer])
        await turns.in_turn(work)

    first, second = (asyncio.create_task(request(payer)) for payer in ("first", "second"))
    await asyncio.sleep(0)
    try:
        with pytest.raises(RateLimited) as refused:
            await asyncio.create_task(request("third"))
    finally:
        go.set()
        await asyncio.gather(first, second)
    assert refused.value.headers["Retry-After"]
    # Neither those that run nor those that wait hold a place.
    assert freed == ["first", "second", "third"]
    assert costs["first"].ns > 0 < costs["second"].ns
    assert costs["third"].ns == 0
