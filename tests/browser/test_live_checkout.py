"""A live checkout in a browser: to the gateway's page and back."""

import re
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.conftest import on_one_loop
from tests.browser.test_checkout import CONSENT
from tests.browser.visit import Visit, reload_until
from tests.channels.checkout.shopper import make_link
from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages, fake_stripe_pages
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.mails.order_links import order_url


@on_one_loop
async def stripe() -> AsyncIterator[FakeStripePages]:
    async with fake_stripe_pages() as pages:
        yield pages


@pytest.fixture
def settings(settings: Settings, stripe: FakeStripePages) -> Settings:
    return msgspec.structs.replace(settings, stripe_secret_key=LIVE_KEY, stripe_api_base=stripe.url)


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _closing(services: Services) -> AsyncIterator[None]:
    yield
    for gateway in services.card_gateways.values():
        await gateway.close()


@pytest.mark.parametrize("javascript", [True, False])
async def test_paying_on_the_gateways_page_and_returning(
    visit: Visit, services: Services, world: World, stripe: FakeStripePages, javascript: bool
) -> None:
    link = await make_link(services, world.ours_live.scope)
    visit.allow(stripe.url)
    page = await visit(f"/offset/{link.id}?quantity=1&email=ann@example.com", javascript=javascript)
    await page.get_by_role("button", name="Continue to payment").click()
    pay = page.get_by_role("button", name=re.compile("^Order and pay "))
    await expect(pay).to_be_visible()
    if javascript:
        await check_page(page, "live-checkout")
    await page.get_by_label(CONSENT).check()
    await pay.click()
    await expect(page.get_by_role("button", name="Try a declined card")).to_be_visible()
    await page.get_by_role("link", name="Back").click()
    await expect(page.get_by_role("heading", name="Waiting for your payment")).to_be_visible()
    if javascript:
        await check_page(page, "live-waiting")
    await page.get_by_role("button", name="Open the payment page again").click()
    await page.get_by_role("button", name="Try a declined card").click()
    await page.get_by_role("button", name="Pay", exact=True).click()
    thanks = page.get_by_role("heading", name="Thank you")
    if not javascript:
        # Instead of waiting for the automatic reload.
        await reload_until(page, thanks)
    await expect(thanks).to_be_visible()
    assert len(stripe.sessions) == 1
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM charges WHERE status = 'captured'") == 1


async def test_a_large_amount_is_paid_after_a_notice(
    visit: Visit, services: Services, world: World, stripe: FakeStripePages
) -> None:
    """And the page of an order that waits for its credits cancels it."""
    link = await make_link(services, world.ours_live.scope)
    visit.allow(stripe.url)
    page = await visit(f"/offset/{link.id}?quantity=12&email=ann@example.com")
    await page.get_by_role("button", name="Continue to payment").click()
    pay = page.get_by_role("button", name=re.compile("^Order and pay "))
    await page.get_by_label(CONSENT).check()
    await pay.click()
    await expect(page.get_by_role("alert")).to_contain_text("Delivery may take longer.")
    await expect(page.get_by_label(CONSENT)).to_be_checked()
    await check_page(page, "live-may-wait")
    await pay.click()
    await expect(page.get_by_role("button", name="Try a declined card")).to_be_visible()
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE orders SET status = 'paid', payment_state = 'paid', next_attempt_at = NULL")
        order_id = await tx.fetchval("SELECT id FROM orders")
        now = services.clock()
        url = await order_url(tx, world.ours_live.scope, order_id, settings=services.settings, now=now)
    assert url is not None
    page = await visit(url.removeprefix(services.settings.base_url))
    await page.get_by_text("Cancel the order").click()
    await expect(page.get_by_role("button", name="Cancel and refund")).to_be_visible()
    await check_page(page, "order-cancel")
