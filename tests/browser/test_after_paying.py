"""After paying on a phone: the buyer loses the tab and comes back by the link in the mail."""

import asyncio
import email
import email.policy
import re
import time

from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.test_checkout import fill_in, pay, to_payment
from tests.browser.visit import Visit
from tests.channels.checkout.shopper import make_link
from tests.support.scene import WITHIN_S
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.customer_mail import allow_address

PHONE = 360
LINK = re.compile(r"https?://[^/\s]+(/o/[^/\s]+)")


async def receipt_path(services: Services) -> str:
    """The link in the receipt, which a worker composes after the payment."""
    raw: bytes | None = None
    deadline = time.monotonic() + WITHIN_S
    while raw is None:
        assert time.monotonic() < deadline, f"no receipt within {WITHIN_S} s"
        async with services.database.connection() as connection:
            raw = await connection.fetchval("SELECT message FROM mails ORDER BY created_at LIMIT 1")
        await asyncio.sleep(0.02)
    body = email.message_from_bytes(raw, policy=email.policy.default).get_body(("plain",))
    assert body is not None
    found = LINK.search(body.get_content())
    assert found is not None
    return found[1]


async def test_a_buyer_loses_the_tab_and_comes_back_by_the_mail(visit: Visit, services: Services, world: World) -> None:
    scope = world.ours_test.scope
    async with services.database.transaction() as tx:
        await allow_address(tx, scope.organisation_id, "ann@example.com", utc_now())
    link = await make_link(services, scope, title="Travel with care")
    page = await visit(f"/offset/{link.id}", width=PHONE)
    await fill_in(page)
    await to_payment(page)
    await pay(page)
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    await page.context.close()

    path = await receipt_path(services)
    back = await visit(path, width=PHONE)
    # The page follows the order without a reload.
    await expect(back.get_by_role("heading", name="Your credits are retired")).to_be_visible()
    await check_page(back, "after-order")
    async with back.expect_download() as download:
        await back.get_by_role("link", name="Download the certificate").click()
    assert (await (await download.value).path()).read_bytes().startswith(b"%PDF")
    # It has the tax document.
    invoice = await back.get_by_role("link", name="TS-TEST-000001").get_attribute("href")
    assert invoice is not None
    assert (await (await back.request.get(invoice)).body()).startswith(b"%PDF")
    await back.get_by_role("link", name="Payment confirmation", exact=True).click()
    await expect(back.get_by_role("heading", name="Payment confirmation")).to_be_visible()
    await expect(back.get_by_text("Total paid")).to_be_visible()
    await check_page(back, "after-receipt")
    async with back.expect_download() as download:
        await back.get_by_role("link", name="Download it (PDF)").click()
    assert (await (await download.value).path()).read_bytes().startswith(b"%PDF")
