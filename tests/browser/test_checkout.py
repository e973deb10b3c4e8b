"""Checkouts in a browser, with and without JavaScript."""

import asyncio
import re
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.checks import assert_accessible, assert_no_overflow, check_page
from tests.browser.conftest import on_one_loop
from tests.browser.visit import Visit, reload_until
from tests.channels.checkout.scene import FIND_APART, HOSTILE, SELL_OUT, allow
from tests.channels.checkout.shopper import GOOD_CARD, POOR_CARD, make_link, signed
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink

SHOP = "https://shop.example.com"
CONSENT = "I ask Tonne to retire the credits before the withdrawal period ends."


@on_one_loop
async def link(services: Services, world: World) -> OffsetLink:
    await allow(services, world, "shop.example.com")
    return await make_link(
        services,
        world.ours_test.scope,
        title="Travel with care",
        message="Two minutes, and your trip is offset.\nThank you!",
        redirect_url=f"{SHOP}/done",
        redirect_label="the shop",
    )


async def fill_in(page: Page, amount: str = "1.5") -> None:
    await page.get_by_label("Amount", exact=True).fill(amount)
    await page.get_by_label("E-mail").fill("ann@example.com")


async def to_payment(page: Page) -> None:
    await page.get_by_role("button", name="Continue to payment").click()
    await expect(page.get_by_role("button", name=re.compile("^Order and pay "))).to_be_visible()


async def pay(page: Page, card: str = GOOD_CARD) -> None:
    await page.get_by_label("Card number").fill(card)
    await page.get_by_label(CONSENT).check()
    await page.get_by_role("button", name=re.compile("^Order and pay ")).click()


async def count(services: Services, table: str) -> int:
    statements = {
        "orders": "SELECT count(*) FROM orders",
        "charges": "SELECT count(*) FROM charges WHERE status = 'captured'",
    }
    async with services.database.connection() as connection:
        found: int = await connection.fetchval(statements[table])
    return found


async def test_a_checkout_from_the_link_to_the_certificate_and_back_to_the_shop(
    visit: Visit, link: OffsetLink, api: ApiClient
) -> None:
    query = urlencode(signed(link, external_id="basket-1"))
    page = await visit(f"/offset/{link.id}?{query}", away=SHOP)
    await fill_in(page)
    await expect(page.locator("#price .total").last).to_contain_text("€")
    shown = await page.locator("#price dd.total").inner_text()
    await check_page(page, "offset")
    await to_payment(page)
    # A script opens the summary, which narrow screens keep closed.
    await expect(page.locator("dd.total")).to_be_visible()
    assert await page.locator("dd.total").inner_text() == shown
    assert shown in await page.get_by_role("button", name=re.compile("^Order and pay ")).inner_text()
    await check_page(page, "checkout")
    await pay(page)
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    await expect(page.get_by_text("Your credits are retired")).to_be_visible()
    await check_page(page, "complete")
    address = await page.get_by_role("link", name="Open the certificate").get_attribute("href")
    pdf = await page.request.get(f"{visit.site}{address}")
    assert (await pdf.body()).startswith(b"%PDF")
    await page.get_by_role("link", name="Back to the shop").click()
    await expect(page.get_by_role("heading", name="Elsewhere")).to_be_visible()
    returned = parse_qs(urlsplit(page.url).query)
    assert returned["external_id"] == ["basket-1"]
    payment = (await api.get(f"/v1/payments/by-temporary-id/{returned['temporary_id'][0]}")).json()
    assert payment["order"]["status"] == "complete"
    assert (payment["order"]["email"], payment["order"]["quantity"]) == ("ann@example.com", "1.5")
    euros = re.sub(r"[^0-9.]", "", shown)
    assert payment["order"]["total_cost"] == euros
    again = await visit(f"/offset/{link.id}?{query}")
    await expect(again.get_by_text("was already made")).to_be_visible()
    await check_page(again, "already-paid")


async def test_the_price_updates_while_typing(visit: Visit, link: OffsetLink) -> None:
    page = await visit(f"/offset/{link.id}")
    await expect(page.get_by_text("Choose an amount to see the price.")).to_be_visible()
    total = page.locator("#price dd.total")
    await fill_in(page, "1")
    one = await total.inner_text()
    await fill_in(page, "2")
    await expect(total).not_to_have_text(one)
    await page.get_by_label("Budget in EUR").check()
    await fill_in(page, "25")
    await expect(total).to_contain_text(re.compile("€2[45]"))
    await fill_in(page, "nonsense")
    await expect(page.get_by_text("Enter the amount as a number")).to_be_visible()
    for box in await page.get_by_role("checkbox").all():
        await box.uncheck()
    await expect(page.locator("#price")).to_contain_text("Choose at least one of the options")


# The texts of rows that are drawn over the next one.
OVERLAPPING = """() => [...document.querySelectorAll(".test-card")]
  .filter((row) => row.scrollHeight > row.clientHeight)
  .map((row) => row.textContent.trim())"""


async def test_another_card_pays_after_a_decline(visit: Visit, link: OffsetLink, services: Services) -> None:
    page = await visit(f"/offset/{link.id}?quantity=1&email=ann@example.com")
    await to_payment(page)
    await pay(page, "4111 1111 1111 1111")
    await expect(page.locator("#card-fault")).to_contain_text("Use a test card")
    await expect(page.get_by_label("Card number")).to_be_focused()
    await pay(page, POOR_CARD)
    await expect(page.get_by_role("alert")).to_contain_text("The card has insufficient funds.")
    await expect(page.get_by_label("Card number")).to_be_focused()
    await expect(page.get_by_label("Card number")).to_have_attribute("aria-invalid", "true")
    await page.locator(".test-cards summary").click()
    assert await page.evaluate(OVERLAPPING) == []
    await check_page(page, "declined")
    await pay(page)
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    assert (await count(services, "orders"), await count(services, "charges")) == (1, 1)


async def test_the_checkout_works_without_javascript(visit: Visit, link: OffsetLink) -> None:
    page = await visit(f"/offset/{link.id}", javascript=False)
    await fill_in(page, "0,75")
    await page.get_by_role("button", name="Update the price").click()
    await expect(page.locator("#price dd.total")).to_contain_text("€")
    assert "form_token" not in page.url
    await expect(page.get_by_label("E-mail")).to_have_value("ann@example.com")
    await to_payment(page)
    await pay(page)
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    # Without JavaScript, the page reloads every few seconds. Do it now.
    await reload_until(page, page.get_by_text("Your credits are retired"))
    await expect(page.get_by_role("link", name="Open the certificate")).to_be_visible()


async def test_double_clicks_back_button_reload_and_two_tabs_make_one_order(
    visit: Visit, link: OffsetLink, services: Services
) -> None:
    page = await visit(f"/offset/{link.id}?quantity=1&email=ann@example.com")
    await to_payment(page)
    other = await page.context.new_page()
    await other.goto(page.url)
    await other.get_by_label("Card number").fill(GOOD_CARD)
    await page.get_by_label("Card number").fill(GOOD_CARD)
    for tab in (page, other):
        await tab.get_by_label(CONSENT).check()
    await page.get_by_role("button", name=re.compile("^Order and pay ")).dblclick()
    await other.get_by_role("button", name=re.compile("^Order and pay ")).click()
    for tab in (page, other):
        await expect(tab.get_by_text("Your credits are retired")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    await page.go_back()
    if await page.get_by_role("button", name=re.compile("^Order and pay ")).count():
        await pay(page)
    await page.goto(other.url)
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    assert (await count(services, "orders"), await count(services, "charges")) == (1, 1)


async def test_a_sold_out_bundle_is_marked_and_cannot_be_selected(
    visit: Visit, services: Services, world: World
) -> None:
    gone = next(iter(world.bundles_test.values()))
    async with services.database.transaction() as tx:
        there = await tx.fetchval(FIND_APART, gone)
        await tx.execute(SELL_OUT, gone)
    link = await make_link(
        services, world.ours_test.scope, bundle_selection=[{"bundle_id": gone}, {"bundle_id": there}]
    )
    page = await visit(f"/offset/{link.id}?quantity=1&email=ann@example.com")
    await expect(page.get_by_text("Sold out")).to_be_visible()
    await expect(page.get_by_role("checkbox", disabled=True)).to_have_count(1)
    await check_page(page, "sold-out")
    await to_payment(page)


async def test_a_price_that_is_being_updated_can_be_read(visit: Visit, link: OffsetLink) -> None:
    page, may_answer = await visit(f"/offset/{link.id}?quantity=1"), asyncio.Event()

    async def answer_late(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await page.route("**/price?*", answer_late)
    await fill_in(page)
    await expect(page.locator("#price[aria-busy]")).to_be_visible()
    await assert_no_overflow(page)
    await assert_accessible(page)
    may_answer.set()
    await expect(page.locator("#price[aria-busy]")).to_have_count(0)


async def test_hostile_text_is_escaped_and_fits(visit: Visit, services: Services, world: World) -> None:
    await allow(services, world, "shop.example.com")
    words = HOSTILE + "W" * 120
    link = await make_link(services, world.ours_test.scope, title=words, message=words * 3)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE bundles SET name = $1, description = $2 WHERE mode = 'test'", words, words * 2)
        await tx.execute("UPDATE catalogues SET version = version + 1")
        await tx.execute("UPDATE accounts SET beneficiary = $1", words)
    page = await visit(
        f"/offset/{link.id}?redirect_url=https%3A%2F%2Fshop.example.com%2F&redirect_label={'%3Cb%3E' * 20}&quantity=1",
        away=SHOP,
    )
    await fill_in(page)
    await check_page(page, "hostile-offset")
    await to_payment(page)
    await check_page(page, "hostile-checkout")
    await pay(page)
    await expect(page.get_by_text("Your credits are retired")).to_be_visible()
    await check_page(page, "hostile-complete")
    assert await page.locator("script:not([src])").count() == 0
    assert await page.locator("img[src=x]").count() == 0


async def test_an_expired_session_and_an_unknown_link(visit: Visit, link: OffsetLink, services: Services) -> None:
    page = await visit(f"/offset/{link.id}?quantity=1&email=ann@example.com")
    await to_payment(page)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE checkouts SET expires_at = now() - interval '1 second'")
    await page.reload()
    await expect(page.get_by_role("heading", name="This payment session has expired")).to_be_visible()
    await check_page(page, "expired")
    await page.get_by_role("link", name="Start again").click()
    await expect(page.get_by_role("button", name="Continue to payment")).to_be_visible()
    nowhere = await visit("/offset/lnk_" + "0" * 26)
    await expect(nowhere.get_by_role("heading", name="Page not found")).to_be_visible()
    await check_page(nowhere, "nothing")


@pytest.mark.parametrize("locale", ["de-DE", "ar-EG", "hi-IN"])
async def test_other_locales_fit(visit: Visit, link: OffsetLink, locale: str) -> None:
    page = await visit(f"/offset/{link.id}?quantity=12345.678901&email=ann@example.com", locale=locale)
    await assert_no_overflow(page)
    await assert_accessible(page)
