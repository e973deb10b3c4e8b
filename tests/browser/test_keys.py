"""API keys and requests in a browser."""

from datetime import timedelta

from playwright.async_api import expect

from tests.browser.checks import assert_light, check_page
from tests.browser.test_dashboard import sign_in
from tests.browser.visit import Visit
from tests.support.api_client import ApiClient
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.keys.restrictions import check_restrictions

LONG = "Nightly reconciliation of the travel booking system in Zurich"


async def add_keys(services: Services, world: World) -> None:
    now, permissions = utc_now(), ["orders:write", "catalogue:read", "certificates:read", "invoices:read"]
    async with services.database.transaction() as tx:
        for n in range(12):
            limits = check_restrictions(
                permissions if n % 3 else ["orders:read"],
                [world.ours_test.scope.account_id] if n % 4 == 1 else None,
                ["203.0.113.0/24", "2001:db8:85a3::/48"] if n % 5 == 2 else [],
                now + timedelta(days=30 * n) if n % 2 else None,
                now,
            )
            name = LONG if n == 3 else f"Web shop {n}"
            await issue_key(tx, world.ours_test.scope, name, by=TESTER.at(now), restrictions=limits)


async def test_a_developer_creates_a_key_and_finds_out_why_a_request_failed(
    visit: Visit, services: Services, world: World, api: ApiClient
) -> None:
    await add_keys(services, world)
    page = await sign_in(visit, services, world)
    base = f"{visit.site}/dashboard/test/{world.ours_test.scope.organisation_id}"
    await page.goto(f"{base}/keys")
    await check_page(page, "keys")
    await page.get_by_role("link", name="Create a key").click()
    await expect(page.get_by_label("Name", exact=True)).to_be_focused()
    await expect(page.get_by_label("Orders", exact=True)).to_be_hidden()
    await page.get_by_role("button", name="Create the key").click()
    await expect(page.get_by_text("Enter what the key is for.")).to_be_visible()
    await page.get_by_label("Name", exact=True).fill(LONG)
    await page.get_by_label("Only what I choose").check()
    await page.get_by_label("Orders", exact=True).select_option("Read and write")
    await page.get_by_label("Only some accounts").check()
    await page.get_by_label("account test").first.check()
    await check_page(page, "key-new")
    await page.get_by_role("button", name="Create the key").click()
    await expect(page.get_by_role("heading", name="Your new key")).to_be_visible()
    await check_page(page, "key-secret")
    secret = await page.locator("#secret").inner_text()
    key = api.as_key(secret)
    await key.order()
    assert (await key.get("/v1/webhooks")).status_code == 403
    body = {"mass": {"amount": "1", "unit": "kilos"}, "email": "ada@example.com", "metadata": {"name": "Ada"}}
    failed = await key.post("/v1/orders/by-mass", body)
    for n in range(4):
        await key.get("/v1/orders" if n % 2 else "/v1/orders/ord_x")
    await page.get_by_role("link", name="I have stored it").click()
    await page.get_by_role("link", name=LONG).first.click()
    await check_page(page, "key")
    await page.get_by_role("link", name="Revoke the key").click()
    await check_page(page, "key-revoke")
    await services.request_log.write()
    await page.get_by_role("link", name="Requests").click()
    await check_page(page, "requests")
    await assert_light(page)
    await page.get_by_label("Request id").fill(failed.headers["x-request-id"])
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_text("validation_error")).to_be_visible()
    await check_page(page, "request")
