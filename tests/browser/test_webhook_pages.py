"""Webhooks in a browser: added, shown with their attempts, replaced secret, deleted."""

from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.test_dashboard import sign_in
from tests.browser.visit import Visit
from tests.support.orders import place
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now

RECEIVER = "https://1.1.1.1/a/long/path/of/a/receiver/that/does/not/fit/in/one/line/of/a/phone"


async def test_a_developer_adds_a_webhook_and_reads_its_attempts(
    visit: Visit, services: Services, world: World
) -> None:
    scope = world.ours_test.scope
    page = await sign_in(visit, services, world)
    await page.goto(f"{page.url.partition('/dashboard')[0]}/dashboard/test/{scope.organisation_id}/webhooks")
    await page.get_by_label("Address").fill(RECEIVER)
    await page.get_by_role("button", name="Add the webhook").click()
    await expect(page.get_by_text("shown only this once")).to_be_visible()
    await check_page(page, "webhook-secret")
    await place(services, scope, utc_now())
    async with services.database.transaction() as tx:
        await tx.execute(_FAILED)
    await page.get_by_role("link", name="Continue to the webhook").click()
    await expect(page.get_by_text("attempts in a row have failed")).to_be_visible()
    await check_page(page, "webhook")
    await page.get_by_role("row").nth(1).get_by_role("link").click()
    await expect(page.get_by_text("did not respond in time")).to_be_visible()
    await check_page(page, "webhook-attempt")
    await page.get_by_role("link", name="Events", exact=True).click()
    await check_page(page, "events")
    await page.get_by_role("link", name="order.placed").first.click()
    await check_page(page, "event")
    await page.get_by_role("link", name="Webhooks", exact=True).click()
    await check_page(page, "webhooks")


_FAILED = """
WITH attempt AS (
    INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, error, acknowledged, duration_ms)
    SELECT organisation_id, id, replace(id, 'wh_', 'att_'), now(), '{1,2}', 'timeout', false, 15000 FROM webhooks
)
UPDATE webhooks
SET failures = 7, failing_since = now() - interval '2 hours', next_attempt_at = now() + interval '1 hour'
"""
