"""The public Sustainability page."""

import re
from datetime import UTC, date, datetime, timedelta
from html import unescape

import httpx
import msgspec
import pytest

from tests.channels.public_pages.scene import LIVE_PAGE, PATH, TEST_PAGE, logo, look, png, put, retire, set_up, words
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.api_client import ApiClient
from tests.support.clock import MARCH as MARCH_MORNING
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.channels.public_pages import store
from tonne.channels.public_pages.figures import figure_store
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7777*7777 }}&amp;</title></svg>\u202e"
SECTIONS = {
    "timeline": "Retired over time",
    "bundles_breakdown": "By bundle",
    "projects": "Projects</h2>",
    "certificates": "Certificates</h2>",
}
MARCH = date(2026, 3, 1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH_MORNING)


@pytest.fixture
def live(services: Services, world: World, clock: ManualClock) -> Shop:
    return Shop(services, world, clock, Mode.LIVE)


@pytest.fixture
def live_api(api: ApiClient, world: World) -> ApiClient:
    return api.as_key(world.ours_live.key)


async def test_the_page_shows_the_figures_of_complete_orders(
    live: Shop, live_api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await live.sell("wind", {"A": 1})
    await live.sell("sun", {"B": 1})
    await live.supply("A", 2020, 1000, retired=True)
    await live.supply("B", 2020, 1000, retired=True)
    await set_up(live_api, title="Our way", description="First line\nsecond line", logo=logo(png()))
    first = await live.buy(world.ours_live.scope, 800 * TONNE + 500_000, "wind")
    await live.work()
    second = await live.buy(world.ours_live.scope, 434 * TONNE, "sun")
    await live.work()
    html = await look(browser, LIVE_PAGE)
    text = words(html)
    assert "Our way First line second line 1,235 t of CO₂ equivalent" in text
    assert "retired on behalf of Beneficiary" in text
    assert '<span title="1,234.5\u00a0t">1,235\u00a0t</span>' in html
    assert "carbon neutral" not in html.lower()
    assert "The wind 64.8% 801 t The sun 35.2% 434 t" in text
    assert (
        "Project A Avoidance Wind · Kenya 801 t Vintage 2020 Our Registry : Project A Project B Avoidance Wind" in text
    )
    assert "Avoidance 100% 1,235 t" in text
    assert "2020 1,235 t" in text, "the vintage"
    assert "Kenya 2 1,235 t" in text, "beside the map"
    assert "Mar 2026 1,235 t" in text
    numbers = [(await live.certificate(order))["number"] for order in (second, first)]
    assert re.findall(r'href="/certificates/([^"]+)"', html) == numbers
    assert f"March 1, 2026 Project A 801 t View certificate {numbers[1]}" in text
    assert '<img class="logo" src="/sustainability/our-forest/logo?v=' in html


async def test_only_the_configured_sections_are_shown(
    services: Services, api: ApiClient, browser: httpx.AsyncClient
) -> None:
    await set_up(api)
    await api.order()
    for job in (
        services.issue_invoices,
        services.follow_up_invoices,
        services.follow_up_invoices,
        services.allocate_orders,
        services.retire_units,
        services.allocate_orders,
    ):
        await job.run_once()
    html = await look(browser)
    assert all(heading in html for heading in SECTIONS.values())
    for section, heading in SECTIONS.items():
        await set_up(api, sections=[section])
        html = await look(browser)
        assert [name for name, shown in SECTIONS.items() if shown in html] == [section], heading
        await set_up(api, sections=[name for name in SECTIONS if name != section])
        assert heading not in await look(browser)
    await set_up(api, sections=[])
    assert "1 t of CO₂ equivalent" in words(await look(browser))


async def test_a_page_without_retirements_says_so(api: ApiClient, browser: httpx.AsyncClient) -> None:
    await set_up(api)
    html = await look(browser)
    assert "Nothing retired yet" in html
    assert not any(heading in html for heading in SECTIONS.values())
    assert "<svg" not in html


def without_links(html: str) -> str:
    """Without the links to other languages, which have the address of the page itself."""
    return re.sub(r'href="[^"]*[?]lang=', "", html)


async def test_unknown_and_disabled_pages_look_the_same(
    api: ApiClient, browser: httpx.AsyncClient, live_api: ApiClient
) -> None:
    unknown = await browser.get("/sustainability/nobody")
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "text/html; charset=utf-8")
    await set_up(api)
    await put(live_api, {"slug": "not-enabled", "enabled": False})
    await set_up(api, slug="renamed", enabled=False)
    paths = [LIVE_PAGE, "/sustainability/not-enabled", "/sustainability/test/not-enabled", TEST_PAGE]
    paths += [
        "/sustainability/test/renamed",
        "/sustainability/test",
        "/sustainability/OUR-FOREST",
        "/sustainability/%00",
    ]
    paths += [f"/sustainability/test/renamed{tail}" for tail in ("/logo", "/preview.png")]
    paths += ["/sustainability/test/renamed/badge.svg", "/widget/test/renamed", "/widget/nobody", "/widget/test"]
    paths += [f"/sustainability/test/renamed/{file}" for file in ("summary.pdf", "totals.csv", "retirements.csv")]
    for path in paths:
        answer = await browser.get(path)
        assert (answer.status_code, without_links(answer.text)) == (404, without_links(unknown.text)), path
        ours, theirs = (
            {name: value for name, value in each.headers.items() if name not in {"x-request-id", "content-length"}}
            for each in (answer, unknown)
        )
        assert ours == theirs, path


async def test_a_test_page_says_so_and_is_hidden_from_search_engines(
    api: ApiClient, live_api: ApiClient, browser: httpx.AsyncClient
) -> None:
    await set_up(api)
    await set_up(live_api)
    test, live = await look(browser, TEST_PAGE), await look(browser, LIVE_PAGE)
    assert "Test mode." in test
    assert '<meta name="robots" content="noindex">' in test
    assert "Test mode." not in live
    assert "noindex" not in live


async def test_an_old_slug_redirects_to_the_page(api: ApiClient, browser: httpx.AsyncClient) -> None:
    await set_up(api, slug="first", logo=logo(png()))
    await set_up(api, slug="second")
    await set_up(api, slug="third")
    for slug in ("first", "second"):
        for tail in ("", "/logo", "/preview.png"):
            answer = await browser.get(f"/sustainability/test/{slug}{tail}")
            assert (answer.status_code, answer.headers["location"]) == (302, f"/sustainability/test/third{tail}")
            assert answer.content == b""
    await set_up(api, slug="first")
    assert (await browser.get("/sustainability/test/first")).status_code == 200
    assert (await browser.get("/sustainability/test/third")).headers["location"] == "/sustainability/test/first"


async def test_hostile_text_is_escaped(
    live: Shop, live_api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    await live.rename(world.ours_live.scope, "Before")
    await live.buy(world.ours_live.scope, TONNE, "wind")
    await live.work()
    async with live.services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET beneficiary = $1", HOSTILE)
        await tx.execute("UPDATE bundles SET name = $1", HOSTILE)
        await tx.execute(
            "UPDATE projects SET name = $1, country = $1, type = $1, registry = $1 || id, registry_url = $2",
            HOSTILE,
            "javascript:alert(1)",
        )
        await tx.execute("UPDATE catalogues SET version = version + 1")
    await set_up(live_api, title=HOSTILE, description=HOSTILE)
    html = await look(browser, LIVE_PAGE)
    assert "<script" not in html
    assert "<img src=x" not in html
    assert "javascript:" not in html
    assert "60481729" not in words(html)
    # Title, five meta tags, heading, description, total, bundle and project.
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 12
    # The page, and the bars of mechanisms and bundles, and the map.
    assert html.count("</title>") == 4
    assert "on behalf of Before" in words(html)


async def test_registry_links_send_no_referrer(
    live: Shop, live_api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    await live.buy(world.ours_live.scope, TONNE, "wind")
    await live.work()
    async with live.services.database.transaction() as tx:
        url = 'https://registry.example/a?b=1&c="x'
        await tx.execute("UPDATE projects SET registry_url = $1, country = 'KE' WHERE registry_project_id = 'A'", url)
        await tx.execute("UPDATE catalogues SET version = version + 1")
    await set_up(live_api)
    html = await look(browser, LIVE_PAGE)
    assert 'href="https://registry.example/a?b=1&amp;c=&#34;x" rel="noopener noreferrer nofollow">Our Registry<' in html
    assert "Wind · Kenya" in words(html)


COPY_CERTIFICATES = """
INSERT INTO certificates (account_id, order_id, organisation_id, mode, number, issued_at, record)
SELECT $1, 'ord_' || n, $2, 'test', 'TEST-' || lpad(n::text, 4, '0'), $3::timestamptz + (n / 7) * interval '1 hour',
       convert_to(format('{"number": "TEST-%s", "total_quantity": "%s.5", "beneficiary": "Beneficiary", "lines": []}',
                         lpad(n::text, 4, '0'), n), 'UTF8')
FROM generate_series($4::int, $5::int) n
"""


async def add_certificates(services: Services, scope: Scope, first: int, last: int) -> None:
    """Some have the same time."""
    issued_at = datetime(2026, 3, 1, tzinfo=UTC)
    async with services.database.transaction() as tx:
        await tx.execute("SET LOCAL session_replication_role = replica")  # without orders
        await tx.execute(COPY_CERTIFICATES, scope.account_id, scope.organisation_id, issued_at, first, last)


async def test_paging_certificates_misses_and_repeats_none(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    scope = world.ours_test.scope
    await set_up(api, sections=["certificates"])
    await add_certificates(services, scope, 1, 125)
    assert len(re.findall(r'href="/certificates/TEST-(\d+)"', await look(browser))) == 5
    seen: list[list[str]] = []
    path: str | None = f"{TEST_PAGE}/certificates"
    while path is not None:
        html = await look(browser, path)
        seen.append(re.findall(r'href="/certificates/TEST-(\d+)"', html))
        assert ('certificates">Newest</a>' in html) == (len(seen) > 1)
        older = re.search(r'href="([^"]+)">Older</a>', html)
        path = unescape(older.group(1)) if older else None
        # New certificates between two requests do not shift the pages.
        await add_certificates(services, scope, 125 + len(seen), 125 + len(seen))
    assert [len(page) for page in seen] == [50, 50, 25]
    assert [int(number) for page in seen for number in page] == list(range(125, 0, -1))


async def test_an_invalid_cursor_is_rejected_with_a_page(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api)
    await add_certificates(services, world.ours_test.scope, 1, 55)
    cursor = re.search(r"after=([\w-]+)\"", await look(browser, f"{TEST_PAGE}/certificates"))
    assert cursor is not None
    for query in ("after=x", "after=", "after=%00", f"after={cursor.group(1)}x", "after=a&after=b"):
        answer = await browser.get(f"{TEST_PAGE}/certificates?{query}")
        assert (answer.status_code, answer.headers["content-type"]) == (400, "text/html; charset=utf-8"), query
    await set_up(api.as_key(world.theirs_test.key), slug="theirs")
    answer = await browser.get(f"/sustainability/test/theirs/certificates?after={cursor.group(1)}")
    assert answer.status_code == 400, "a place in one list is none in another"


async def test_a_page_shows_only_its_own_account(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api)
    theirs = world.theirs_test.scope
    await retire(services, theirs, MARCH, TONNE, project=("p", "Their project"))
    await add_certificates(services, theirs, 1, 3)
    client = Scope(world.ours_test.scope.organisation_id, world.ours_test.client_account_id, Mode.TEST)
    await retire(services, client, MARCH, TONNE, project=("p", "Our client's project"))
    html = await look(browser)
    assert "Nothing retired yet" in html
    assert "project" not in html.replace("projects", "")
    assert "TEST-0001" not in html


async def test_the_head_has_link_preview_tags(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api, title='Our "forest"')
    await retire(services, world.ours_test.scope, MARCH, 2 * TONNE)
    html = await look(browser)
    tags = dict(re.findall(r'<meta (?:property|name)="([\w:]+)" content="([^"]*)">', html))
    assert tags["og:title"] == "Our &#34;forest&#34;"
    assert tags["og:description"] == "2\u00a0t of CO₂ equivalent, as carbon credits retired on behalf of Beneficiary."
    assert tags["og:url"] == "http://tonne.test/sustainability/test/our-forest"
    assert tags["twitter:card"] == "summary_large_image"
    image = tags["og:image"]
    assert image.startswith("http://tonne.test/sustainability/test/our-forest/preview.png?v=")
    assert (await browser.get(image)).headers["content-type"] == "image/png"
    await retire(services, world.ours_test.scope, date(2026, 2, 1), TONNE)
    assert image not in await look(browser), "the picture's address changes with its figures"


async def test_the_page_is_cached_for_a_minute_and_has_no_script(
    services: Services, api: ApiClient, browser: httpx.AsyncClient, world: World
) -> None:
    await set_up(api, logo=logo(png()))
    await retire(services, world.ours_test.scope, MARCH, 2 * TONNE)
    answer = await browser.get(TEST_PAGE)
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert "set-cookie" not in answer.headers
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<script" not in answer.text
    assert " style=" not in answer.text
    assert " onclick" not in answer.text
    for address in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
        assert address.startswith(("/", "#", "http://tonne.test/")), address


async def test_the_queries_do_not_grow_with_the_number_of_orders(services: Services) -> None:
    """The plans use indexes and sort only what the page shows."""
    statements = {
        figure_store.LIST_CERTIFICATES: "'acc_1', now(), 'x', '2026-01-01', 21",
        figure_store.SUM_RETIRED: "'acc_1', '2026-01-01', '2026-12-31'",
        figure_store.LIST_VINTAGES: "'acc_1', 2026, 2026",
        figure_store.LIST_MONTHS: "'acc_1'",
        store.FIND_BY_SLUG: "'test', 'acme'",
    }
    plans = []
    async with services.database.transaction() as tx:
        await tx.execute("SET LOCAL enable_seqscan = off")
        await tx.execute("SET LOCAL enable_bitmapscan = off")
        await tx.execute("SET LOCAL enable_sort = off")
        for number, (sql, arguments) in enumerate(statements.items()):
            await tx.execute(f"PREPARE statement_{number} AS {sql}")
            rows = await tx.fetch(f"EXPLAIN EXECUTE statement_{number} ({arguments})")
            plans.append("\n".join(row[0] for row in rows))
    assert all("Seq Scan" not in plan for plan in plans)
    assert "certificates_public" in plans[0]
    assert "Sort" not in plans[0]
    assert "retired_totals_pkey" in plans[1]
    assert "retired_vintages_pkey" in plans[2]
    assert "retired_totals_pkey" in plans[3]


async def test_after_a_change_the_page_shows_it(api: ApiClient, browser: httpx.AsyncClient, clock: ManualClock) -> None:
    page = await set_up(api)
    assert page["updated_at"] == "2026-03-01T09:00:00.000Z"
    clock.now += timedelta(days=1)
    await put(api, {"title": "Changed"})
    assert "<title>Changed</title>" in await look(browser)
    assert (await api.get(PATH)).json()["updated_at"] == "2026-03-02T09:00:00.000Z"


async def test_the_seller_name_comes_from_the_settings(
    populated_db: Database, settings: Settings, world: World
) -> None:
    named = msgspec.structs.replace(settings, seller_name="Acme <Offsets>")
    transport = httpx.ASGITransport(build_app(Services(populated_db, named)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        await set_up(ApiClient(http, world.ours_test.key))
        assert "Acme &lt;Offsets&gt;" in await look(http)
