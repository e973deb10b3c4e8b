"""Every request is charged what it costs, and who has used more waits while others wait."""

import asyncio
import contextlib
import contextvars
import functools
import threading
import time
from collections.abc import Callable

import httpx
import pytest

from tests.support.api_client import ApiClient
from tests.support.people import Person, add_user
from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.http import server
from tonne.platform.http.asgi import AsgiApp
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits import admission, turns
from tonne.platform.http.limits.admission import Admission
from tonne.platform.http.route import Access
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
    shares, longest_ms = Admission(10, 5, 60), 0.0
    greedy = await shares.enter("greedy")
    shares.leave("greedy", 100 * MS, greedy)
    for number in range(30_000):
        started = time.thread_time()
        shares.leave(f"network{number}", MS, await shares.enter(f"network{number}"))
        longest_ms = max(longest_ms, 1000 * (time.thread_time() - started))
    assert len(shares._payers) <= admission._MAX_PAYERS
    assert shares._payers["greedy"].tag == 100 * MS
    assert longest_ms < 20


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


async def test_waiting_for_a_turn_to_sign_in_keeps_nobody_from_a_place(
    services: Services, app: AsgiApp, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, entered, enter = threading.Event(), list[str](), services.admission.enter

    async def counted(name: str, *, takes_place: bool = True) -> int:
        expected = await enter(name, takes_place=takes_place)
        entered.append(name)
        return expected

    async def all_but_two_wait() -> bool:
        # Each has loaded the page before.
        return len(entered) == 2 * services.settings.database_connections and services.admission._running <= 2

    monkeypatch.setattr(services.admission, "enter", counted)
    monkeypatch.setattr("tonne.selling.users.passwords._verify", lambda *_: go.wait())
    async with contextlib.AsyncExitStack() as stack:
        waiting = []
        for number in range(services.settings.database_connections):
            transport = httpx.ASGITransport(app, client=(f"203.0.113.{number % 4}", 1))
            stranger = Person(
                await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://tonne.test"))
            )
            waiting.append(asyncio.create_task(stranger.sign_in("ann@ours.test")))
        try:
            await asyncio.wait_for(Scene(services).until(all_but_two_wait), 60)
            assert (await asyncio.wait_for(api.get("/v1/orders"), 60)).status_code == 200
        finally:
            go.set()
            await asyncio.gather(*waiting)
    assert services.admission._running == 0


async def test_no_route_is_outside(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Health and metrics excepted: an operator needs them most when the service is busy."""
    charged: dict[str, int] = {}
    entered = services.admission.enter

    async def enter(name: str, *, takes_place: bool = True) -> int:
        charged[name] = charged.get(name, 0) + 1
        return await entered(name, takes_place=takes_place)

    monkeypatch.setattr(services.admission, "enter", enter)
    outside = set()
    for route in services.routes():
        before = sum(charged.values())
        path = "/".join("x" if part.startswith("{") else part for part in route.path.split("/"))
        client = api.http if route.access is Access.API_KEY else browser
        headers = {"Authorization": f"Bearer {world.ours_test.key}"} if route.access is Access.API_KEY else {}
        answer = await client.request(route.method, path, headers=headers)
        # A key that may not use the route is refused before anything is done.
        if sum(charged.values()) == before and answer.status_code != 403:
            outside.add(route.path)
    assert outside <= {"/health/live", "/health/ready", "/metrics"}
    assert world.ours_test.scope.organisation_id in charged


async def test_people_who_are_signed_in_are_charged_themselves_and_not_their_network(
    services: Services, app: AsgiApp, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them in one office do not slow each other; without a query before the request is admitted."""
    charged, entered = list[str](), services.admission.enter
    assert all(route.find_payer for route in services.routes() if route.access is Access.USER)

    async def enter(name: str, *, takes_place: bool = True) -> int:
        charged.append(name)
        return await entered(name, takes_place=takes_place)

    async with contextlib.AsyncExitStack() as stack:
        people: list[tuple[Person, str]] = []
        for email in ("ann@ours.test", "bea@ours.test"):
            user = await add_user(services, email, organisation_id=world.ours_test.scope.organisation_id)
            transport = httpx.ASGITransport(app, client=("203.0.113.9", 1))
            http = httpx.AsyncClient(transport=transport, base_url="http://tonne.test")
            people.append((Person(await stack.enter_async_context(http)), user.id))
            await people[-1][0].sign_in(email)
        monkeypatch.setattr(services.admission, "enter", enter)
        for person, _ in people:
            assert (await person.get("/dashboard/you")).status_code == 200
        assert charged == [user_id for _, user_id in people]
        [ann, (bea, _)] = [people[0][0], people[1]]
        sealed = ann.http.cookies.pop("tonne_device")
        for forged in ("", "00" * 60, sealed[:-2] + ("00" if sealed[-2:] != "00" else "11")):
            ann.http.cookies.set("tonne_device", forged, domain="tonne.test")
            await ann.get("/dashboard/you")
        await bea.get("/dashboard/sign-in")
        assert charged[2:] == ["203.0.113.9"] * 4


async def test_strangers_pay_more_than_those_who_are_known(
    services: Services, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crowd of anonymous addresses must not have most of a busy process."""
    paid, costs, leave = list[int](), list[Cost](), services.admission.leave

    class Kept(Cost):
        def __init__(self, payer: str, give_back: Callable[[], None] | None) -> None:
            super().__init__(payer, give_back)
            costs.append(self)

    def keep(name: str, cost: int, expected: int, *, has_place: bool = True) -> None:
        paid.append(cost)
        leave(name, cost, expected, has_place=has_place)

    monkeypatch.setattr(server, "Cost", Kept)
    monkeypatch.setattr(services.admission, "leave", keep)
    await api.get("/v1/orders")
    await api.http.get("/verify")
    assert paid == [costs[0].ns, 8 * costs[1].ns]
    assert min(paid) > 0


async def test_pages_of_errors_are_charged_and_networks_of_one_site_are_one_payer(
    services: Services, app: AsgiApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged, leave = list[str](), services.admission.leave

    def keep(name: str, cost: int, expected: int, *, has_place: bool = True) -> None:
        assert cost > 0
        charged.append(name)
        leave(name, cost, expected, has_place=has_place)

    monkeypatch.setattr(services.admission, "leave", keep)
    for address in ("2001:db8:1:1::9", "2001:db8:1:2::9"):
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as stranger:
            page = await stranger.get("/no/such/page", headers={"Accept": "text/html"})
            assert page.status_code == 404
            assert "Page not found" in page.text
            # That of the endpoint, and of its error.
            await stranger.get("/checkout/x", headers={"Accept": "text/html"})
    assert charged == ["2001:db8:1::/48"] * 6
    for busy in range(services.settings.database_connections):
        await services.admission.enter(f"busy{busy}")
    monkeypatch.setattr(admission, "MAX_WAITING", 0)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as stranger:
        refused = await stranger.get("/no/such/page", headers={"Accept": "text/html"})
    assert refused.status_code == 404
    assert refused.headers["Content-Type"] == "application/json"
