"""Orders in a browser: a member finds one and cancels another; the operator sees why one is stuck."""

import asyncio
from pathlib import Path

import httpx
from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.orders import complete_order
from tests.browser.visit import Visit
from tests.support.api_client import ApiClient
from tests.support.people import PASSWORD, Person, add_user, operator
from tests.support.world import World
from tonne.apps.wiring.app import Services

ANN = "ann@ours.test"
LONG_NAME = "Verein zur Förderung der Aufforstung im nördlichen Schwarzwald"


async def stop_advancing(services: Services) -> None:
    """Orders that are placed from now on wait for the test helpers."""
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET auto_advance = false WHERE mode = 'test'")


async def test_a_member_finds_an_order_and_cancels_another(
    visit: Visit, api: ApiClient, services: Services, world: World
) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    await add_user(services, ANN, organisation_id)
    hook = (await api.post("/v1/webhooks", {"url": "https://1.1.1.1/a/rather/long/path/of/a/receiver"})).json()
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE webhooks SET enabled = false WHERE id = $1", hook["id"])
    order = await complete_order(
        api, beneficiary={"name": LONG_NAME}, idempotency_key="trip-42", metadata={"booking": "Harbour 77"}
    )
    await stop_advancing(services)
    waiting = await api.order(mass={"amount": "200", "unit": "t"})
    path = f"/dashboard/test/{organisation_id}/orders"
    page = await visit(path)
    await page.get_by_label("E-mail address").fill(ANN)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await check_page(page, "orders")
    async with page.expect_download() as export:
        await page.get_by_role("link", name="Export as CSV").click()
    text = await asyncio.to_thread(Path(await (await export.value).path()).read_text)
    assert (len(text.splitlines()), order["id"] in text) == (3, True)
    await page.get_by_label("Find an order").fill("harbour")
    await page.keyboard.press("Enter")
    await page.locator(f"a[href$='/orders/{order['id']}']").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text(LONG_NAME)
    await expect(page.locator(".timeline").first).to_contain_text("Complete: every gram is retired")
    await expect(page.get_by_role("link", name=hook["url"]).first).to_be_visible()
    await page.get_by_text("JSON of the API").click()
    await check_page(page, "order")
    await page.get_by_role("link", name="Certificates", exact=True).click()
    await expect(page.get_by_role("cell", name=LONG_NAME)).to_be_visible()
    await page.set_viewport_size({"width": 360, "height": 900})
    heights = await page.evaluate("[...document.querySelectorAll('tbody tr')].map((row) => row.clientHeight)")
    assert heights, "there are certificates"
    assert max(heights) < 100, "at most three lines a row on a phone"
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.get_by_label("Select all").check()
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download the selected ones (ZIP)").click()
    assert (await download.value).suggested_filename.endswith(".zip")
    await check_page(page, "certificates")
    await page.goto(f"{visit.site}{path}/{waiting['id']}/cancel")
    await check_page(page, "order-cancel")
    await page.get_by_role("button", name="Cancel the order").click()
    await expect(page.get_by_label("Reason")).to_be_focused()
    await page.get_by_label("Reason").fill("Ordered twice")
    await page.get_by_role("button", name="Cancel the order").click()
    await expect(page.get_by_role("status")).to_have_text("The order is cancelled.")


async def test_the_operator_sees_why_an_order_is_stuck(visit: Visit, api: ApiClient, services: Services) -> None:
    await stop_advancing(services)
    order = await api.order()
    await api.post(f"/v1/test-helpers/orders/{order['id']}/settle-invoice", {})
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE organisations SET name = $1", LONG_NAME)
        await tx.execute(
            "UPDATE orders SET hold_reason = 'credit_limit_reached', status = 'placed', email = 'zoe@example.com'"
        )
    async with httpx.AsyncClient(base_url=visit.site, timeout=60) as http:
        await operator(services, Person(http))
        cookies = [{"name": each.name, "value": each.value or "", "url": visit.site} for each in http.cookies.jar]
    page = await visit("/dashboard/sign-in")
    await page.context.add_cookies(cookies)  # type: ignore[arg-type]
    await page.goto(f"{visit.site}/operator/test/orders?stuck=1")
    await expect(page.get_by_role("row", name=order["id"])).to_contain_text("On hold: the credit limit")
    await check_page(page, "operator-orders")
    await page.locator(f"a[href$='/orders/{order['id']}']").click()
    await expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    await check_page(page, "operator-order")
    await page.get_by_role("link", name="Send mails again").click()
    await check_page(page, "order-resend")
