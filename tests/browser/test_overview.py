"""The overview in a browser: a new organisation, then one with a year of orders in two currencies."""

from datetime import date, timedelta

from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.test_dashboard import sign_in
from tests.browser.visit import Visit
from tests.channels.public_pages.scene import retire
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now

# As if orders had been placed.
TOTAL = """
INSERT INTO order_totals (organisation_id, mode, month, currency, status, orders, grams, cost_minor, tax_minor,
                          refunded_minor)
VALUES ($1, 'test', $2, $3, $4, $5, $6, $7, 0, 0)
"""
WEBHOOK = """
INSERT INTO webhooks (organisation_id, mode, id, url, created_at, secret_box, secret_last_four, cursor_position,
                      next_attempt_at, failing_since)
VALUES ($1, 'test', 'wh_1', $2, now(), '', 'abcd', 0, now() + interval '1 day', now())
"""
GROUP = """
INSERT INTO billing_groups (id, organisation_id, mode, currency, billing, threshold_minor, order_count, exact_cost,
                            next_attempt_at)
VALUES ('bgr_1', $1, 'test', 'EUR', 'threshold', 5000000, 1234, 1234567000000, now() + interval '1 day')
"""
INVOICE = """
WITH document AS (
    INSERT INTO tax_documents (id, kind, mode, series, number, reference, organisation_id, currency, total_minor,
                               issued_on, record, tax_lines, buyer, created_at)
    VALUES ('inv_1', 'invoice', 'test', 'TN', 1, 'TN-TEST-1', $1, 'EUR', 100, '2026-01-01', '', '{}', '', now())
    RETURNING *
)
INSERT INTO invoices (id, organisation_id, mode, number, reference, currency, total_minor, status, issued_on, due_on,
                      created_at)
SELECT id, organisation_id, mode, number, reference, currency, total_minor, 'open', issued_on, '2026-01-31', now()
FROM document
"""


async def add_year(services: Services, world: World) -> None:
    scope, month = world.ours_test.scope, utc_now().date().replace(day=1)
    async with services.database.transaction() as tx:
        for number in range(14):
            grams, status = 1_085_285_248 // (number % 5 + 1), "complete" if number else "paid"
            values = (month, "EUR", status, 300, grams, grams // 800)
            await tx.execute(TOTAL, scope.organisation_id, *values)
            if number % 3 == 0:
                await tx.execute(TOTAL, scope.organisation_id, month, "USD", "complete", 3, grams // 9, grams // 6000)
            month = (month - timedelta(days=1)).replace(day=1)
        long_url = "https://receiver.very-long-host-name-of-a-customer.example/webhooks/offsets/production/eu-west-1"
        await tx.execute(WEBHOOK, scope.organisation_id, long_url)
        await tx.execute(GROUP, scope.organisation_id)
        await tx.execute(INVOICE, scope.organisation_id)
        projects = await tx.fetch("SELECT DISTINCT ON (mechanism) id FROM projects WHERE mode = 'test'")
    for place, project in enumerate(projects):
        year = date(utc_now().year, 1, 1)
        await retire(services, scope, year, 123_456_789 * (place + 1), project=(project["id"], "A project"))


async def test_the_overview_of_a_new_organisation_and_after_a_year(
    visit: Visit, services: Services, world: World
) -> None:
    page = await sign_in(visit, services, world)
    await page.get_by_role("link", name="Overview", exact=True).click()
    await expect(page.get_by_role("heading", name="Start here")).to_be_visible()
    await check_page(page, "overview-new")
    await add_year(services, world)
    await page.get_by_role("navigation", name="Mode").get_by_role("link", name="Test").click()
    await page.get_by_role("link", name="Set a target").click()
    await expect(page.get_by_label("Target for a year, in tonnes")).to_be_focused()
    await page.get_by_label("Target for a year, in tonnes").fill("1,000")
    await page.get_by_label("Budget for a year").fill("many")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("with at most 2 decimals")).to_be_visible()
    await expect(page.get_by_label("Target for a year, in tonnes")).to_be_focused()
    await check_page(page, "overview-target")
    await page.get_by_label("Target for a year, in tonnes").fill("12000")
    await page.get_by_label("Budget for a year").fill("25000000")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status")).to_have_text("The target and the budget are saved.")
    await expect(page.get_by_role("img", name="Tonnes per month")).to_be_visible()
    await expect(page.get_by_role("img", name="Spend per month in USD")).to_be_visible()
    await page.get_by_text("Show as a table").first.click()
    await expect(page.get_by_role("table", name="Tonnes per month")).to_be_visible()
    await check_page(page, "overview")
