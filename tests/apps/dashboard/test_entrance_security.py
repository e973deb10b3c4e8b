"""The pages before the dashboard: other sites can neither frame them, nor send their forms, nor lead people away."""

from collections.abc import Callable

import pytest

from tests.apps.dashboard.test_sign_in import ANN, code_of, turn_on_second_factor
from tests.support.clock import ManualClock
from tests.support.people import PASSWORD, Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.http.route import Access

MakePerson = Callable[[], Person]
ELSEWHERE = ("https://evil.example", "//evil.example", "/\\evil.example", "/dashboard//evil.example", "/offset/x")


@pytest.fixture
async def ann(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, ANN, world.ours_test.scope.organisation_id)
    return person()


def entrances(services: Services, method: str) -> list[str]:
    return [
        route.path.format(token="go_" + "0" * 26)
        for route in services.routes()
        if route.access is Access.PUBLIC and route.method == method and route.path.startswith("/dashboard")
    ]


async def test_no_page_can_be_framed_or_cached(services: Services, ann: Person) -> None:
    pages = entrances(services, "GET")
    assert len(pages) >= 7
    for path in pages:
        headers = (await ann.get(path)).headers
        if "location" not in headers:
            assert "frame-ancestors 'none'" in headers["content-security-policy"], path
            assert "form-action 'self'" in headers["content-security-policy"], path
        assert headers["cache-control"] == "no-store", path


async def test_forms_of_other_sites_are_refused(services: Services, ann: Person) -> None:
    await ann.get("/dashboard/sign-in")
    token, forms = ann.http.cookies["tonne"], entrances(services, "POST")
    assert len(forms) >= 8
    for path in forms:
        without = await ann.http.post(path, data={"email": ANN, "password": PASSWORD})
        wrong = await ann.http.post(path, data={"form_token": "x" * 22, "email": ANN, "password": PASSWORD})
        cross = await ann.http.post(
            path,
            data={"form_token": token, "email": ANN, "password": PASSWORD},
            headers={"Sec-Fetch-Site": "cross-site"},
        )
        assert [answer.status_code for answer in (without, wrong, cross)] == [400, 400, 400], path
    assert "tonne_session" not in ann.http.cookies


async def test_each_step_begins_a_new_session(ann: Person, person: MakePerson, clock: ManualClock) -> None:
    await ann.sign_in(ANN)
    secret, _ = await turn_on_second_factor(ann, clock)
    clock.advance(minutes=1)
    again = person()
    await again.sign_in(ANN)
    before = again.http.cookies["tonne_session"]
    answer = await again.submit("/dashboard/code", code=code_of(secret, clock))
    assert answer.status_code == 303
    assert again.http.cookies["tonne_session"] != before
    # What was known before the second factor is worth nothing after it.
    eve = person()
    eve.http.cookies.set("tonne_session", before, domain="tonne.test")
    assert (await eve.get("/dashboard/you")).headers["location"].startswith("/dashboard/sign-in")


@pytest.mark.parametrize("goal", ELSEWHERE)
async def test_the_second_step_never_leads_to_another_site(
    ann: Person, person: MakePerson, clock: ManualClock, goal: str
) -> None:
    await ann.sign_in(ANN)
    _, codes = await turn_on_second_factor(ann, clock)
    again = person()
    answer = await again.submit("/dashboard/sign-in", email=ANN, password=PASSWORD, next=goal)
    assert answer.headers["location"] == "/dashboard/code?next=/dashboard"
    answer = await again.submit("/dashboard/code", code=codes[0], next=goal)
    assert answer.headers["location"] == "/dashboard"


async def test_the_goal_keeps_its_query(ann: Person, person: MakePerson, clock: ManualClock) -> None:
    await ann.sign_in(ANN)
    _, codes = await turn_on_second_factor(ann, clock)
    again, goal = person(), "/dashboard/you?a=1&b=2"
    answer = await again.submit("/dashboard/sign-in", email=ANN, password=PASSWORD, next=goal)
    assert answer.headers["location"] == "/dashboard/code?next=/dashboard/you%3Fa%3D1%26b%3D2"
    page = await again.get(answer.headers["location"])
    assert 'name="next" value="/dashboard/you?a=1&amp;b=2"' in page.text
    assert (await again.submit("/dashboard/code", code=codes[0], next=goal)).headers["location"] == goal
