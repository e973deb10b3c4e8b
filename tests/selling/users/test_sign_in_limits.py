"""Strangers can neither fill the queue of sign-in nor lock people out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import httpx
import pytest

from tests.support.people import PASSWORD, Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.turns import Turns
from tonne.selling.users import store
from tonne.selling.users.sign_in import ACCOUNT_ATTEMPTS, ATTEMPTS

ANN = "ann@ours.test"
NEW_PASSWORD = "nine purple umbrellas"  # noqa: S105 - of test users
From = Callable[[str], Person]


@pytest.fixture
async def browser_at(services: Services, world: World) -> AsyncIterator[From]:
    """Makes a new browser at a network address. Ann has a user."""
    await add_user(services, ANN, world.ours_test.scope.organisation_id)
    app = build_app(services)
    async with AsyncExitStack() as stack:

        def make(address: str) -> Person:
            transport = httpx.ASGITransport(app, client=(address, 4711))
            client = httpx.AsyncClient(transport=transport, base_url="http://tonne.test")
            stack.push_async_callback(client.aclose)
            return Person(client)

        yield make


async def lock_out(person: Person) -> None:
    """Without computing hashes: the limits count before them."""
    for _ in range(ATTEMPTS + 1):
        answer = await person.sign_in(ANN, "wrong")
    assert answer.status_code == 429


@pytest.fixture
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Argon2 takes long by design, and these tests count attempts."""
    monkeypatch.setattr("tonne.selling.users.passwords._verify", lambda _, password: password == PASSWORD)


@pytest.mark.usefixtures("quick_passwords")
async def test_failures_lock_one_network_out_and_not_the_person(browser_at: From) -> None:
    await lock_out(browser_at("203.0.113.7"))
    refused = await browser_at("203.0.113.7").sign_in(ANN)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "90")
    assert (await browser_at("198.51.100.9").sign_in(ANN)).status_code == 303
    # Another person in the network of the attacker is not concerned.
    assert (await browser_at("203.0.113.7").sign_in("bob@ours.test", "wrong")).status_code == 422


@pytest.mark.usefixtures("quick_passwords")
async def test_an_address_has_one_budget_of_attempts_however_it_is_spelt(services: Services, browser_at: From) -> None:
    """With some locales PostgreSQL folds the dotted capital letter to a plain i, which Python does not.

    So the database must not fold what limits count. The database of the tests has the locale C, which shows nothing.
    """
    assert "lower(" not in store.FIND_USER + store.IS_KNOWN
    await add_user(services, "ida@ours.test")
    assert (await browser_at("203.0.113.7").sign_in("\u0130da@ours.test")).status_code == 422
    assert (await browser_at("203.0.113.7").sign_in(" IDA@ours.test")).status_code == 303
    used = services.limits._limits["sign_in_account"].consume("ida@ours.test", 0)
    assert used.remaining == ACCOUNT_ATTEMPTS - 1


@pytest.mark.usefixtures("quick_passwords")
async def test_a_refusal_is_a_page_in_the_language_of_the_person(browser_at: From) -> None:
    person = browser_at("203.0.113.7")
    await lock_out(person)
    person.http.headers["accept-language"] = "de"
    refused = await person.sign_in(ANN)
    assert (refused.status_code, refused.headers["content-type"]) == (429, "text/html; charset=utf-8")
    assert "Zu viele Anmeldeversuche" in refused.text


@pytest.mark.usefixtures("quick_passwords")
async def test_a_browser_that_signed_in_before_is_never_locked_out(services: Services, browser_at: From) -> None:
    known = browser_at("203.0.113.7")
    await known.sign_in(ANN)
    await known.submit("/dashboard/sign-out")
    # Strangers in the same network and in many others.
    await lock_out(browser_at("203.0.113.7"))
    services.limits._limits["sign_in_account"].consume(ANN, ACCOUNT_ATTEMPTS - ATTEMPTS - 1)
    assert (await browser_at("198.51.100.1").sign_in(ANN, "wrong")).status_code == 422
    # All attempts of unknown browsers are used up, wherever they are.
    assert (await browser_at("192.0.2.200").sign_in(ANN)).status_code == 429
    assert (await known.sign_in(ANN)).status_code == 303


@pytest.mark.usefixtures("quick_passwords")
async def test_a_known_browser_has_attempts_of_its_own_and_only_for_its_user(browser_at: From) -> None:
    known = browser_at("203.0.113.7")
    await known.sign_in(ANN)
    await known.submit("/dashboard/sign-out")
    cookie = known.http.cookies["tonne_device"]
    thief = browser_at("198.51.100.1")
    thief.http.cookies.set("tonne_device", cookie)
    # Then it counts as an unknown browser, whose attempts are limited, too.
    statuses = [(await thief.sign_in(ANN, "wrong")).status_code for _ in range(2 * ATTEMPTS + 1)]
    assert statuses == [422] * (2 * ATTEMPTS) + [429]
    other = browser_at("198.51.100.2")
    other.http.cookies.set("tonne_device", cookie)
    statuses = [(await other.sign_in("bob@ours.test", "wrong")).status_code for _ in range(ATTEMPTS + 1)]
    assert statuses[-1] == 429


@pytest.mark.usefixtures("quick_passwords")
@pytest.mark.parametrize("way", ["password", "sessions", "forged"])
async def test_a_known_browser_is_forgotten(browser_at: From, way: str) -> None:
    known, elsewhere = browser_at("203.0.113.7"), browser_at("203.0.113.8")
    await known.sign_in(ANN)
    await elsewhere.sign_in(ANN)
    if way == "password":
        await elsewhere.submit(
            "/dashboard/you/password", old_password=PASSWORD, password=NEW_PASSWORD, repeat=NEW_PASSWORD
        )
    elif way == "sessions":
        await elsewhere.submit("/dashboard/you/sessions/end")
    else:
        sealed = known.http.cookies["tonne_device"]
        known.http.cookies.set(
            "tonne_device", sealed[:-2] + ("00" if sealed[-2:] != "00" else "11"), domain="tonne.test"
        )
    stranger = browser_at("203.0.113.7")
    for _ in range(ATTEMPTS + 1):
        answer = await stranger.sign_in(ANN, "x" * 201)
    assert answer.status_code == 429
    assert (await known.sign_in(ANN)).status_code == 429


async def test_the_device_cookie_is_out_of_reach_of_scripts_and_other_sites(browser_at: From) -> None:
    answer = await browser_at("203.0.113.7").sign_in(ANN)
    [cookie] = [each for each in answer.headers.get_list("set-cookie") if each.startswith("tonne_device=")]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert ANN not in cookie


async def test_no_network_can_fill_the_queue() -> None:
    turns, served = Turns(1, 4, "busy"), list[str]()

    async def ask(asker: str) -> None:
        async with turns.take(asker):
            served.append(asker)
            await asyncio.sleep(0)

    async with turns.take("first"):
        crowd = [asyncio.create_task(ask("crowd")) for _ in range(6)]
        await asyncio.sleep(0)
        # Refused at once, while the others wait.
        assert [task.done() for task in crowd] == [False] * 4 + [True] * 2
        honest = asyncio.create_task(ask("honest"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert crowd[3].done()
    results = await asyncio.gather(*crowd, honest, return_exceptions=True)
    refused = [result for result in results if isinstance(result, RateLimited)]
    assert (len(refused), refused[0].headers["Retry-After"]) == (3, "5")
    # Askers take turns.
    assert served == ["crowd", "honest", "crowd", "crowd"]


async def test_a_waiter_that_gives_up_holds_no_place() -> None:
    turns = Turns(1, 4, "busy")

    async def ask(asker: str) -> str:
        async with turns.take(asker):
            return asker

    async with turns.take("first"):
        gone, stays = asyncio.create_task(ask("a")), asyncio.create_task(ask("b"))
        await asyncio.sleep(0)
        gone.cancel()
    assert await asyncio.wait_for(stays, 60) == "b"
    assert await asyncio.wait_for(ask("c"), 60) == "c"
    # Cancelled just after it was its turn.
    async with turns.take("first"):
        late = asyncio.create_task(ask("d"))
        await asyncio.sleep(0)
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    assert await asyncio.wait_for(ask("e"), 60) == "e"
