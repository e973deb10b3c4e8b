"""The public page of a certificate."""

import hashlib
import re
from html import unescape

import httpx
import msgspec
import pytest

from tests.channels.public_pages.certificates import (
    HOSTILE,
    complete_live_order,
    complete_order,
    make_hostile,
    other_number,
    record_of,
    show_page,
)
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.channels.public_pages.model import PageSection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.supply.certificates.store import new_number


@pytest.fixture
async def number(api: ApiClient, services: Services, world: World) -> str:
    """The number of a public certificate."""
    await show_page(services, world.ours_test.scope)
    return await complete_order(api, services)


async def test_the_page_shows_the_record(browser: httpx.AsyncClient, services: Services, number: str) -> None:
    answer = await browser.get(f"/certificates/{number}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    text = unescape(answer.text)
    record = await record_of(services, number)
    facts = [record.number, record.beneficiary, record.issuer, "1.5\u00a0t", "retired on behalf of"]
    for line in record.lines:
        facts += [line.project_name, line.registry, line.project_id, line.country, line.vintage, line.serial_range]
    for fact in facts:
        assert fact in text
    assert "Test mode." in text
    assert "Issued in test mode. No credits were retired." in text
    assert "neutral" not in text.lower()
    for link in (f"/certificates/{number}/document", f"/verify/{number}", "/sustainability/test/our-forest"):
        assert f'href="{link}"' in answer.text
    assert len(answer.content) < 50_000
    assert answer.headers["cache-control"] == "no-store"


async def test_the_order_has_the_address_of_its_certificate(
    browser: httpx.AsyncClient, api: ApiClient, number: str
) -> None:
    [order] = (await api.get("/v1/orders")).json()["data"]
    assert order["public_certificate_url"] == f"http://tonne.test/certificates/{number}"
    assert (await browser.get(order["public_certificate_url"])).status_code == 200


async def test_a_live_certificate_does_not_mention_test_mode_and_links_to_the_registry(
    browser: httpx.AsyncClient, services: Services, world: World
) -> None:
    await show_page(services, world.ours_live.scope)
    number = await complete_live_order(services, world)
    answer = await browser.get(f"/certificates/{number}")
    assert answer.status_code == 200
    assert "test mode" not in answer.text.lower()
    assert 'href="/sustainability/our-forest"' in answer.text
    assert '<a href="https://registry.example/r" rel="noopener noreferrer nofollow">' in answer.text


async def test_people_a6_pages_say_which_credits_were_retired_in_advance(
    browser: httpx.AsyncClient, services: Services, world: World
) -> None:
    await show_page(services, world.ours_live.scope)
    number = await complete_live_order(services, world)
    for path in (f"/certificates/{number}", f"/verify/{number}"):
        text = re.sub(r"<[^>]*>", "", unescape((await browser.get(path)).text))
        assert "were retired in advance and are assigned to" in text
        assert "Retired in advance by Tonne on May 6, 2025, assigned to Beneficiary on " in text
        assert "behalf" not in text


async def test_the_pdf_is_that_of_the_api_and_can_be_verified(
    browser: httpx.AsyncClient, api: ApiClient, services: Services, number: str
) -> None:
    answer = await browser.get(f"/certificates/{number}/document")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/pdf")
    assert answer.headers["content-disposition"] == f'inline; filename="certificate-{number}.pdf"'
    [order] = (await api.get("/v1/orders")).json()["data"]
    assert (await api.get(f"/v1/orders/{order['id']}/certificate")).content == answer.content
    async with services.database.connection() as connection:
        known = await connection.fetch("SELECT number, sha256 FROM certificate_documents")
    assert [tuple(row) for row in known] == [(number, hashlib.sha256(answer.content).digest())]


@pytest.mark.parametrize("tail", ["", "/document"])
async def test_an_unpublished_certificate_looks_unknown(
    browser: httpx.AsyncClient, api: ApiClient, services: Services, world: World, tail: str
) -> None:
    number = await complete_order(api, services)
    nothing = await browser.get(f"/certificates/{new_number(Mode.TEST)}{tail}")
    assert (nothing.status_code, nothing.headers["content-type"]) == (404, "text/html; charset=utf-8")
    unsettled = {"x-request-id", "date", "content-length"}

    async def looks_like_nothing(path: str) -> bool:
        answer = await browser.get(path)
        same = [{k: v for k, v in each.headers.items() if k not in unsettled} for each in (answer, nothing)]
        # The links to other languages contain the address.
        texts = [re.sub("<nav.*</nav>", "", each.text, flags=re.DOTALL) for each in (answer, nothing)]
        return answer.status_code == 404 and texts[0] == texts[1] and same[0] == same[1]

    path = f"/certificates/{number}{tail}"
    assert await looks_like_nothing(path), "there is no page at all"
    await show_page(services, world.ours_test.scope, enabled=False)
    assert await looks_like_nothing(path), "the page is switched off"
    others = (PageSection.TIMELINE, PageSection.PROJECTS, PageSection.BUNDLES_BREAKDOWN)
    await show_page(services, world.ours_test.scope, sections=others)
    assert await looks_like_nothing(path), "the page has no certificates"
    await show_page(services, world.ours_test.scope)
    assert not await looks_like_nothing(path)
    for wrong in (other_number(number), "x", "%00", "%FF", "%2E%2E", "a" * 3000, "%27%20OR%201=1--", f"{number}0"):
        assert await looks_like_nothing(f"/certificates/{wrong}{tail}"), wrong


async def test_the_page_of_another_account_does_not_publish_ours(
    browser: httpx.AsyncClient, api: ApiClient, services: Services, world: World
) -> None:
    number = await complete_order(api, services)
    await show_page(services, world.theirs_test.scope)
    assert (await browser.get(f"/certificates/{number}")).status_code == 404


async def test_hostile_names_are_escaped(browser: httpx.AsyncClient, services: Services, number: str) -> None:
    await make_hostile(services, number)
    answer = await browser.get(f"/certificates/{number}")
    assert answer.status_code == 200
    assert re.findall(r'<script src="/assets/(\w+)', answer.text) == ["share", "copy"]
    assert answer.text.count("<script") == 2
    assert "<img src=x" not in answer.text
    assert "javascript:" not in answer.text
    assert unescape(answer.text).count(HOSTILE) >= 2 + 2 * 7
    assert 'href="https://registry.example/&#34;&gt;&lt;script&gt;" rel="noopener noreferrer nofollow"' in answer.text


async def test_numbers_and_dates_are_formatted_for_the_visitors_locale(
    browser: httpx.AsyncClient, services: Services, number: str
) -> None:
    await make_hostile(services, number, "Plain")
    german = await browser.get(f"/certificates/{number}", headers={"Accept-Language": "de-DE,de;q=0.9"})
    assert "1.234.567,891234\u00a0t" in unescape(german.text)
    assert "1. März 2026" in unescape(german.text)
    british = await browser.get(f"/certificates/{number}", headers={"Accept-Language": "en-GB"})
    assert "1,234,567.891234\u00a0t" in unescape(british.text)
    assert "1 March 2026" in unescape(british.text)


async def test_pdfs_and_unknown_numbers_are_rate_limited_but_pages_are_not(
    api: ApiClient, services: Services, world: World, settings: Settings
) -> None:
    await show_page(services, world.ours_test.scope)
    number = await complete_order(api, services)
    strict = build_app(Services(services.database, msgspec.structs.replace(settings, verify_per_minute=0.001)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(strict), base_url="http://tonne.test") as client:
        for _ in range(settings.verify_burst + 5):
            assert (await client.get(f"/certificates/{number}")).status_code == 200
        for _ in range(5):
            assert (await client.get(f"/certificates/{number}/document")).status_code == 200
        wrong = [f"/certificates/{new_number(Mode.TEST)}" for _ in range(settings.verify_burst)]
        statuses = [(await client.get(path)).status_code for path in wrong]
        assert statuses == [404] * (settings.verify_burst - 5) + [429] * 5
        for path in (f"/certificates/{number}/document", f"/certificates/{number}"):
            refused = await client.get(path)
            assert (refused.status_code, refused.headers["content-type"]) == (429, "text/html; charset=utf-8")
            assert int(refused.headers["retry-after"]) >= 1
