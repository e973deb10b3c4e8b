"""Who is charged for a request over HTTP, and that no request is outside."""

import asyncio
import contextlib
import threading
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
from tonne.platform.http.limits import admission
from tonne.platform.http.route import Access
from tonne.platform.process.cost import Cost


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
