"""The figures of a page."""

import re
from datetime import date

import httpx
import pytest

from tests.channels.public_pages.scene import TEST_PAGE, look, retire, set_up, words
from tests.supply.retirements.shop import TONNE
from tests.support.api_client import ApiClient
from tests.support.clock import MARCH as MARCH_MORNING
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services

MARCH = date(2026, 3, 1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH_MORNING)


async def test_figures_are_formatted_for_the_visitors_locale(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api)
    await retire(services, world.ours_test.scope, MARCH, 1_234_500_000, bundle=("b1", "One"), project=("p1", "P"))
    await retire(services, world.ours_test.scope, MARCH, 1_000_000, bundle=("b2", "Two"), project=("p1", "P"))
    german = words(await look(browser, language="de"))
    assert "1.236 t CO₂-Äquivalente" in german
    assert "One 99,9 % 1.235 t" in german
    assert "März 2026" in german
    assert 'title="1,234.5\u00a0t"' in await look(browser, language="en")
    assert (await browser.get(TEST_PAGE)).headers["vary"] == "Accept-Language, Cookie"


async def test_what_left_the_catalogue_keeps_its_last_name(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api)
    scope = world.ours_test.scope
    await retire(services, scope, date(2026, 1, 1), 5, bundle=("b", "Old bundle"), project=("p", "Old name"))
    await retire(
        services, scope, MARCH, 7, bundle=("b", "Last bundle"), project=("p", "Last name"), project_type="Peat"
    )
    text = words(await look(browser))
    assert "Last bundle 100% 0.0120 kg" in text
    assert "Last name Peat 0.0120 kg" in text
    assert "Old" not in text


async def test_the_timeline_shows_a_year_with_its_empty_months(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api, sections=["timeline"])
    await retire(services, world.ours_test.scope, date(2025, 4, 1), TONNE)
    await retire(services, world.ours_test.scope, MARCH, 3 * TONNE)
    html = await look(browser)
    assert html.count('<rect class="series-1"') == 2
    rows = re.findall(r"<tr><td>([^<]+)</td><td class=\"num\">([^<]+)</td><td class=\"num\">[^<]+</td></tr>", html)
    assert len(rows) == 12
    assert "From 1 t in Apr 2025 to 4 t in Mar 2026." in words(html)
    assert (rows[0], rows[-1]) == (("Mar 2026", "3\u00a0t"), ("Apr 2025", "1\u00a0t"))
    assert {amount for _, amount in rows[1:-1]} == {"0\u00a0t"}
    assert "Before" not in words(html)
    assert "Highest month: 3 t in Mar 2026." in words(html)


async def test_the_timeline_shows_two_years_and_earlier_totals_by_year(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api, sections=["timeline"])
    for month, tonnes in (
        ((2022, 5), 1),
        ((2022, 7), 2),
        ((2024, 2), 4),
        ((2024, 3), 8),
        ((2024, 4), 16),
        ((2026, 3), 32),
    ):
        await retire(services, world.ours_test.scope, date(*month, 1), tonnes * TONNE)
    html = await look(browser)
    rows = re.findall(r"<tr><td>([^<]+)</td><td class=\"num\">([^<]+)\u00a0t</td>", html)
    assert len(rows) == 24 + 2
    assert rows[23:] == [("Apr 2024", "16"), ("2024, before Apr 2024", "12"), ("2022", "3")]
    assert "Before Apr 2024: 15 t" in words(html)
    assert sum(int(amount) for _, amount in rows) == 63
    assert "63 t of CO₂" in words(html)


async def test_a_month_ahead_of_this_clock_is_shown(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    """The clocks of two machines may differ at the end of a month."""
    await set_up(api, sections=["timeline"])
    await retire(services, world.ours_test.scope, date(2026, 4, 1), TONNE)
    assert "Apr 2026 1.00 t" in words(await look(browser))


async def test_more_bundles_than_colours_share_the_last_one(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api, sections=["bundles_breakdown"])
    for number in range(9):
        await retire(
            services, world.ours_test.scope, MARCH, (9 - number) * TONNE, bundle=(f"b{number}", f"Bundle {number}")
        )
    html = (await look(browser)).partition('aria-labelledby="bundles-title')[2]
    chart = html.partition("</svg>")[0]
    assert re.findall(r'class="series-(\d)"', chart) == list("123456")
    assert re.findall(r'swatch.*?series-(\d)"', html) == list("123456666")
    shares = re.findall(r'<td class="num">([\d.]+)%</td>', html)
    assert len(shares) == 9
    assert sum(round(float(share) * 10) for share in shares) == 1000


async def test_the_number_of_listed_projects_is_limited(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api)
    for number in range(70):
        name = f"{number:03} " + "A name as long as they come " * 10
        await retire(services, world.ours_test.scope, MARCH, (100 - number) * TONNE, project=(f"p{number}", name))
    html = await look(browser)
    assert "And 10 smaller projects: 355 t." in words(html)
    assert "059 A name" in html
    assert "060 A name" not in html
    assert len(html.encode()) < 100_000


async def test_every_chart_has_a_title_a_description_and_a_table(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api)
    await retire(services, world.ours_test.scope, MARCH, 2 * TONNE)
    html = await look(browser)
    charts = re.findall(r"<svg[^>]*>", html)
    pictures = [chart for chart in charts if 'role="img"' in chart]
    assert len(pictures) == 2
    for chart in pictures:
        title, description = re.findall(r"[\w-]+", re.findall(r'aria-labelledby="([^"]+)"', chart)[0])
        assert f'<title id="{title}">' in html
        assert f'<desc id="{description}">' in html
    assert all('aria-hidden="true"' in chart for chart in charts if chart not in pictures)
    assert html.count("<table") == 2
