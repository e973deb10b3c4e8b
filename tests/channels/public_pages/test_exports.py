"""Years, vintages and files of a page, and what becomes of them when a certificate is no longer valid."""

import csv
import io

import httpx
import pytest

from tests.channels.public_pages.scene import LIVE_PAGE, look, set_up, words
from tests.supply.retirements.shop import TONNE, Shop
from tests.supply.retirements.test_reissue import reissue, withdraw
from tests.support.api_client import ApiClient
from tests.support.clock import MARCH, ManualClock
from tests.support.pdf_pages import page_texts
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
def live(services: Services, world: World, clock: ManualClock) -> Shop:
    return Shop(services, world, clock, Mode.LIVE)


async def rows(browser: httpx.AsyncClient, address: str) -> list[dict[str, str]]:
    answer = await browser.get(f"{LIVE_PAGE}/{address}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["x-robots-tag"] == "noindex"
    assert "attachment" in answer.headers["content-disposition"]
    return list(csv.DictReader(io.StringIO(answer.text)))


async def test_years_and_files_follow_the_valid_certificates(
    live: Shop, api: ApiClient, browser: httpx.AsyncClient, world: World, clock: ManualClock
) -> None:
    scope = world.ours_live.scope
    await live.sell("wind", {"A": 1})
    await live.sell("sun", {"B": 1})
    await live.supply("A", 2019, 2, retired=True)
    await live.supply("A", 2021, 100, retired=True)
    await live.supply("B", 2023, 100, retired=True)
    await set_up(api.as_key(world.ours_live.key))
    first = await live.buy(scope, 3 * TONNE, "wind")
    await live.work()
    clock.now = clock.now.replace(year=2027)
    second = await live.buy(scope, 2_500_000, "sun")
    await live.work()

    everything = await look(browser, LIVE_PAGE)
    assert "5.5 t of CO₂ equivalent" in words(everything)
    assert "Vintage 2019, 2021" in words(everything)
    assert f'href="{LIVE_PAGE}?year=2026"' in everything
    assert f'<link rel="canonical" href="http://tonne.test{LIVE_PAGE}">' in everything
    year = await look(browser, f"{LIVE_PAGE}?year=2026")
    assert "3 t of CO₂ equivalent" in words(year)
    assert "Project A" in year
    assert "Project B" not in year
    assert f'<link rel="canonical" href="http://tonne.test{LIVE_PAGE}?year=2026">' in year
    for unknown in ("2020", "", "x", "2026'"):
        answer = await browser.get(LIVE_PAGE, params={"year": unknown})
        assert f'<link rel="canonical" href="http://tonne.test{LIVE_PAGE}">' in answer.text, unknown
    assert answer.headers["cache-control"] == "public, max-age=60"

    totals = await rows(browser, "totals.csv")
    assert [(row["month"], row["project"], row["grams"], row["tonnes"]) for row in totals] == [
        ("2027-03", "Project B", "2500000", "2.5"),
        ("2026-03", "Project A", "3000000", "3"),
    ]
    retired = await rows(browser, "retirements.csv")
    assert [(row["vintage"], row["grams"]) for row in retired] == [
        *(("2023", "2000000"), ("2023", "500000")),
        *(("2019", "2000000"), ("2021", "1000000")),
    ]
    assert retired[0]["certificate"] == (await live.certificate(second))["number"]
    assert [row["project"] for row in await rows(browser, "retirements.csv?year=2026")] == ["Project A", "Project A"]
    assert [row["month"] for row in await rows(browser, "totals.csv?year=2027")] == ["2027-03"]
    pdf = await browser.get(f"{LIVE_PAGE}/summary.pdf", params={"year": "2027", "lang": "de"})
    assert (pdf.status_code, pdf.headers["content-type"]) == (200, "application/pdf")
    text = " ".join(page_texts(pdf.content))
    assert "2,5 t" in text
    assert "Project B" in text
    assert "Project A" not in text

    await reissue(live, first, "Ada GmbH")
    assert "Vintage 2019, 2021" in words(await look(browser, f"{LIVE_PAGE}?year=2026"))
    assert {row["beneficiary"] for row in await rows(browser, "retirements.csv?year=2027")} == {
        "Ada GmbH",
        "Beneficiary",
    }
    await live.check_invariants()
    await withdraw(live, first)
    after = words(await look(browser, LIVE_PAGE))
    assert "2.5 t of CO₂ equivalent" in after
    assert "Vintage 2023" in after
    assert "2019" not in after
    assert {row["vintage"] for row in await rows(browser, "retirements.csv")} == {"2023"}
    await live.check_invariants()


async def test_without_certificates_there_is_no_list_of_them(
    api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api.as_key(world.ours_live.key), sections=["timeline"])
    for tail in ("/certificates", "/retirements.csv"):
        assert (await browser.get(f"{LIVE_PAGE}{tail}")).status_code == 404
    assert await rows(browser, "totals.csv") == []
    assert (await browser.get(f"{LIVE_PAGE}/summary.pdf")).status_code == 200
