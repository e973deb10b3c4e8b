"""Requests to registries that a person settles, and another one approves."""

from collections.abc import Callable

import pytest

from tests.apps.backoffice.supply_shop import words
from tests.apps.backoffice.test_money import confirm
from tests.apps.backoffice.test_registries_page import buy, shop
from tests.supply.registries.test_retire_units import check_books
from tests.supply.retirements.shop import Shop
from tests.support.command import Operator
from tests.support.people import Person, operator
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings

__all__ = ["shop"]
PAGE = "/operator/test/registries"
URL = "https://registry.verra.org/retirements/1"


@pytest.fixture
async def omar(services: Services, person: Callable[[], Person]) -> Person:
    omar = person()
    await operator(services, omar, "omar@tonne.test", "Omar Diaz")
    return omar


async def request_of(shop: Shop, beneficiary: str) -> str:
    """The path of a request for 2 t that has no answer."""
    await buy(shop, beneficiary, 2)
    request_id = await shop.fetchval("SELECT id FROM registry_instructions")
    return f"{PAGE}/requests/{request_id}"


async def age(shop: Shop) -> None:
    """The request can no longer be on its way."""
    await shop.execute("UPDATE registry_instructions SET sent_at = sent_at - interval '11 minutes'")


async def state(shop: Shop) -> list[tuple[str, int]]:
    sql = "SELECT state, in_doubt FROM registry_instructions ORDER BY recorded_at, id"
    return [(row["state"], row["in_doubt"]) for row in await shop.fetch(sql)]


async def test_credits_that_are_not_retired_wait_again_after_two_people_said_so(
    shop: Shop, olga: Person, omar: Person
) -> None:
    path = await request_of(shop, "Registry Lost")
    found = {"finding": "not_retired", "reason": "Nothing with the reference"}
    early = await olga.submit(f"{path}/settle", **found)
    assert "wait until ten minutes after it was sent" in words(early)
    await age(shop)
    empty = words(await olga.submit(f"{path}/settle"))
    assert "Choose what you have found at the registry." in empty
    assert "Nothing is booked until another person approves it." in await confirm(olga, f"{path}/settle", **found)
    assert await state(shop) == [("asked", 1)], "nothing is booked yet"
    waiting = await omar.get("/operator/test/money/approvals")
    assert "Not retired: Nothing with the reference" in words(waiting)
    assert f'href="{path}"' in waiting.text
    own = await olga.submit(f"{path}/approve")
    assert "You requested this: another person must approve it." in words(own)
    assert "they are retired twice" in await confirm(omar, f"{path}/approve")
    assert await state(shop) == [("declined", 0)]
    assert "Nothing waits." in words(await omar.get("/operator/test/money/approvals"))
    assert "Not retired" in words(await omar.get(path))
    await shop.work()
    assert await state(shop) == [("declined", 0), ("asked", 1)], "the registry is asked again"
    again = await olga.submit(f"{path}/settle", **found)
    assert "is not open" in words(again)


async def test_credits_that_are_retired_are_booked_with_their_serials(shop: Shop, olga: Person, omar: Person) -> None:
    path = await request_of(shop, "Registry Answer Lost")
    await age(shop)
    found = {"finding": "retired", "reason": "Found in the account", "retired_on": f"{shop.clock():%Y-%m-%d}"}
    missing = words(await olga.submit(f"{path}/settle", finding="retired"))
    for fault in ("Enter the serials that", "Enter the day of", "Enter the address", "Say how you have found"):
        assert fault in missing, fault
    for serials, problem in (
        ("ELSE-1 101–102", "Enter serials of the lot"),
        ("test-A-1 101–104", "These are 4 units, and 2 were asked for."),
        ("test-A-1 201–202", "It cannot be booked"),
        ("test-A-1", "A serial cannot be read"),
    ):
        refused = await olga.submit(f"{path}/settle", **found, serials=serials, retirement_url=URL)
        assert problem in words(refused), words(refused)
    await confirm(olga, f"{path}/settle", **found, serials="test-A-1 101-101; test-A-1 102–102", retirement_url=URL)
    await confirm(omar, f"{path}/approve")
    assert await state(shop) == [("retired", 0)]
    await shop.work()
    assert await shop.fetchval("SELECT status FROM orders") == "complete"
    await check_books(shop)
    details = await shop.fetchval("SELECT details FROM audit_log WHERE action = 'registry_request.settled'")
    assert "Found in the account" in str(details)


async def test_what_a_command_line_found_needs_two_people(
    shop: Shop, olga: Person, omar: Person, populated_db: Database, settings: Settings
) -> None:
    path = await request_of(shop, "Registry Lost")
    request_id = path.rpartition("/")[2]
    cli = Operator(populated_db._url, secret_key=settings.secret_key)
    # The command has the real time, and the request was sent long ago.
    await shop.execute("UPDATE registry_instructions SET sent_at = now() - interval '1 hour'")
    unclear = cli.runs("registry", "settle", request_id, "--retired", URL, "--reason", "x")
    assert (unclear.returncode, "--serial and --on" in unclear.stderr) == (2, True)
    noted = cli.runs("registry", "settle", request_id, "--not-retired", "--reason", "Asked by phone")
    assert "two people approve it" in noted.stdout, noted.stderr
    assert f"{path}" in cli.runs("registry", "approve", request_id).stdout
    await shop.execute("UPDATE registry_instructions SET sent_at = $1", shop.clock())
    await age(shop)
    assert "Another person must approve it, too" in await confirm(olga, f"{path}/approve")
    assert await state(shop) == [("asked", 1)]
    again = words(await olga.submit(f"{path}/approve", confirmed="yes"))
    assert "You have approved this" in again
    # Whoever changes what is to be approved starts anew.
    changed = await confirm(olga, f"{path}/settle", finding="not_retired", reason="Another reason")
    assert "Another reason" in changed
    await confirm(omar, f"{path}/approve")
    assert await state(shop) == [("declined", 0)]
