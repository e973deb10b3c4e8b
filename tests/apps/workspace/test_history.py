"""Before Tonne: the page of orders with former providers, and the section of the public page."""

import re
from collections.abc import Callable
from datetime import date, timedelta

import httpx
import pytest

from tests.channels.public_pages.scene import TEST_PAGE, put, set_up, words
from tests.support.api_client import ApiClient
from tests.support.people import Person, add_user
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Scope
from tonne.selling.accounts.import_history import import_history

MakePerson = Callable[[], Person]
HEADER = "date,external_id,quantity,amount,currency,provider,link\n"
ROW = "2024-05-01,A-1,12.5,187.50,EUR,<b>Former</b>,https://former.example.org/1?a=1&b=2\n"


async def state(services: Services, scope: Scope, rows: str = ROW) -> None:
    async with services.database.transaction() as tx:
        file = SheetFile("history.csv", (HEADER + rows).encode())
        report = await import_history(tx, scope, file, by=TESTER.at(services.clock()))
    assert report.errors == []


@pytest.fixture
async def ann(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id)
    ann = person()
    await ann.sign_in("ann@ours.test")
    return ann


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


async def test_the_dashboard_lists_it_apart(ann: Person, services: Services, world: World, base: str) -> None:
    assert "There are none." in (await ann.get(f"{base}/history")).text
    assert f"{base}/history" not in (await ann.get(f"{base}/orders")).text
    await state(services, world.theirs_test.scope, ROW.replace("Former", "Foreign"))
    await state(services, world.ours_test.scope)
    orders = (await ann.get(f"{base}/orders")).text
    assert f'href="{base}/history"' in orders
    assert "Former" not in orders
    text = (await ann.get(f"{base}/history")).text
    for part in (
        "&lt;b&gt;Former&lt;/b&gt;",
        "A-1",
        "€187.50",
        "https://former.example.org/1?a=1&amp;b=2",
        "Not verified",
    ):
        assert part in text, part
    assert "Foreign" not in text
    assert "There are none." in (await ann.get(f"{base.replace('/test/', '/live/')}/history")).text


async def test_the_dashboard_pages_through_it(ann: Person, services: Services, world: World, base: str) -> None:
    days = [date(2024, 1, 1) + timedelta(days=number // 2) for number in range(120)]
    await state(services, world.ours_test.scope, "".join(f"{day},N-{n:03},1,,,Former,\n" for n, day in enumerate(days)))
    seen: list[str] = []
    address = f"{base}/history"
    for _ in range(3):
        text = (await ann.get(address)).text
        seen += re.findall(r'small">(N-\d+)<', text)
        address = f"{base}/history?after=" + text.partition("/history?after=")[2].partition('"')[0]
    assert sorted(seen) == [f"N-{n:03}" for n in range(120)]
    assert address == f"{base}/history?after="
    assert (await ann.get(f"{base}/history?after=wrong")).status_code == 400


async def test_the_public_page_shows_it_only_if_the_account_chooses_so(
    api: ApiClient, services: Services, world: World, browser: httpx.AsyncClient
) -> None:
    await state(services, world.ours_test.scope, ROW + "".join(f"2020-01-01,N-{n},1,9,EUR,Old,\n" for n in range(25)))
    page = await set_up(api)
    assert "history" not in page["sections"], "off by default"
    assert "Former" not in (await browser.get(TEST_PAGE)).text
    assert (await put(api, {"sections": ["history"]})).json()["sections"] == ["history"]
    answer = await browser.get(TEST_PAGE)
    shown = words(answer.text)
    for part in (
        "Before Tonne",
        "Not verified",
        "We have not verified them",
        "12.5 t",
        "Earlier orders are not listed",
    ):
        assert part in shown, part
    assert "Nothing retired yet" in shown, "it is counted in no total"
    assert "&lt;b&gt;Former&lt;/b&gt;" in answer.text
    assert 'href="https://former.example.org/1?a=1&amp;b=2" rel="nofollow noopener noreferrer"' in answer.text
    assert answer.text.count("<bdi>Old</bdi>") == 19
    for private in ("187.50", "A-1", "N-1"):
        assert private not in shown, "what it cost, and ids, stay with the account"
    for file in ("/totals.csv", "/badge.svg"):
        assert "Former" not in (await browser.get(TEST_PAGE + file)).text
    public = (await browser.get(f"/v1/sustainability-pages/public/test/{page['slug']}")).text
    assert "Former" not in public
    assert '"quantity":"0"' in public


async def test_nothing_of_ours_counts_it(api: ApiClient, services: Services, world: World) -> None:
    await state(services, world.ours_test.scope)
    tables = ("orders", "order_deltas", "order_totals", "account_totals", "retired_totals", "log_statements", "events")
    async with services.database.connection() as connection:
        for table in (*tables, "certificates", "pending_events", "invoices"):
            assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0, table  # noqa: S608 - see above
    assert (await api.http.get("/v1/orders", headers=api._headers({}))).json()["data"] == []
