"""The page of requests to the API."""

import re
from collections.abc import Callable

import pytest

from tests.support.api_client import ApiClient
from tests.support.clock import ManualClock
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.apps.workspace.developers import requests_page
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


@pytest.fixture
async def reader(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id, Role.READ_ONLY)
    someone = person()
    await someone.sign_in("ann@ours.test")
    return someone


async def test_requests_are_listed_filtered_and_shown(
    reader: Person, api: ApiClient, services: Services, world: World, *, clock: ManualClock, base: str
) -> None:
    empty = (await reader.get(f"{base}/requests")).text
    assert "No request in test mode in the last 7 days." in empty
    await api.order()
    clock.advance(minutes=1)
    hostile = {"mass": {"amount": "<img>", "unit": "t"}, "emial": "ada@example.com"}
    failed = await api.post("/v1/orders/by-mass", hostile)
    clock.advance(minutes=1)
    await api.get("/v1/orders/ord_x")
    await services.request_log.write()

    page = (await reader.get(f"{base}/requests")).text
    assert re.findall(r"<code>((?:GET|POST) [^<]+)</code></td>", page) == [
        "GET /v1/orders/{order_id}",
        "POST /v1/orders/by-mass",
        "POST /v1/orders/by-mass",
    ]
    assert "order_not_found" in page
    assert "ord_x" not in page
    for query, count in (
        ("?status=failed", 2),
        ("?status=2xx", 1),
        ("?status=5xx", 0),
        ("?endpoint=POST+/v1/orders/by-mass", 2),
        ("?endpoint=POST+/v1/orders/by-mass&status=4xx", 1),
        (f"?key={world.ours_test.key_id}&since=1h", 3),
        (f"?key={world.ours_live.key_id}", 0),
        ("?status=nonsense&since=x&endpoint=y", 3),
    ):
        text = (await reader.get(f"{base}/requests{query}")).text
        assert text.count('data-label="Duration"') == count, query
        assert ("No request matches" in text) is (count == 0)

    request_id = failed.headers["x-request-id"]
    found = await reader.get(f"{base}/requests?id=%20{request_id}")
    assert found.headers["location"] == f"{base}/requests/{request_id}"
    one = (await reader.get(found.headers["location"])).text
    for part in (
        "validation_error",
        "Unknown field emial.",
        "test key",
        "/docs/try/#/Orders/placeOrderByMass",
        "[masked]",
    ):
        assert part in one
    assert "ada@example.com" not in one
    assert "<img>" not in one
    clock.advance(days=7)
    await reader.sign_in("ann@ours.test")
    assert (await reader.get(f"{base}/requests/{request_id}")).status_code == 404
    assert "No request in test mode" in (await reader.get(f"{base}/requests")).text


async def test_older_requests_are_on_further_pages(
    reader: Person,
    api: ApiClient,
    services: Services,
    clock: ManualClock,
    *,
    monkeypatch: pytest.MonkeyPatch,
    base: str,
) -> None:
    monkeypatch.setattr(requests_page, "PAGE_ROWS", 2)
    for _ in range(5):
        await api.get("/v1/orders")
        clock.advance(seconds=1)
    await services.request_log.write()
    seen, path = [], f"{base}/requests?status=2xx"
    while path:
        text = (await reader.get(path)).text
        seen.append(text.count('data-label="Duration"'))
        following = re.search(r'href="([^"]+after=[^"]+)"', text)
        path = following[1].replace("&amp;", "&") if following else ""
    assert seen == [2, 2, 1]
    assert (await reader.get(f"{base}/requests?after=x")).status_code == 400


async def test_requests_of_the_other_mode_and_of_other_organisations_are_not_shown(
    reader: Person, api: ApiClient, services: Services, world: World, base: str
) -> None:
    others = [
        await api.as_key(world.ours_live.key).get("/v1/orders"),
        await api.as_key(world.theirs_test.key).get("/v1/orders"),
    ]
    await services.request_log.write()
    assert "No request in test mode" in (await reader.get(f"{base}/requests")).text
    for answer in others:
        assert (await reader.get(f"{base}/requests/{answer.headers['x-request-id']}")).status_code == 404
    live = base.replace("/test/", "/live/")
    assert (await reader.get(f"{live}/requests/{others[0].headers['x-request-id']}")).status_code == 200
