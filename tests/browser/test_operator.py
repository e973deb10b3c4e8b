"""The operator's pages in a browser: Today, customers, jobs and queues, audit log."""

import re
from datetime import timedelta

from playwright.async_api import Page, expect

from tests.browser.checks import check_page
from tests.browser.visit import PATIENCE_MS, Visit
from tests.support.people import PASSWORD, add_user
from tests.support.world import TESTER, World
from tonne.apps.lookup.doctor.doctor_run_store import DoctorFinding, DoctorRun, record_run
from tonne.apps.wiring.app import Services
from tonne.platform.jobs.loop import JobReports
from tonne.platform.jobs.metrics import JobMetrics
from tonne.platform.values.context import utc_now

OLGA = "olga@tonne.test"
LONG_NAME = "Vereinigte Windjammer- und Küstenschifffahrtsgesellschaft AG"
UNMATCHED = """
INSERT INTO bank_transfers (id, mode, format, booked_on, amount_minor, currency, payer, reference, state, imported_at,
                            imported_by)
SELECT 'trf_' || lpad(number::text, 26, '0'), 'live', 'csv', '2026-10-30', 123456, 'EUR', $1, 'x', 'unmatched',
       now(), 'cli:test'
FROM generate_series(1, 12) AS number
"""
# The worker may have noted the day already.
SOLD = """
INSERT INTO supply_days (mode, day, project_id, sold_grams)
SELECT 'live', current_date - days, project_id, sum(quantity_grams) / (days + 1)
FROM lots, generate_series(0, 7, 7) AS days WHERE mode = 'live' GROUP BY project_id, days
ON CONFLICT (mode, day, project_id) DO UPDATE SET sold_grams = excluded.sold_grams
"""


async def sign_in(visit: Visit, services: Services) -> Page:
    user = await add_user(services, OLGA, name="Olga Berg")
    page = await visit("/dashboard")
    await page.get_by_label("E-mail address").fill(OLGA)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE user_sessions SET is_strong = true WHERE user_id = $1", user.id)
    return page


async def fill(services: Services, world: World) -> None:
    """What a busy morning leaves behind."""
    ours = world.ours_live.scope.organisation_id
    async with services.database.transaction() as tx:
        await tx.execute(UNMATCHED, LONG_NAME)
        await tx.execute("UPDATE organisations SET name = $1 WHERE id = $2", LONG_NAME, ours)
        await tx.execute(SOLD)
        finding = DoctorFinding("x", "warning", "A mail was refused for good.", "Correct the cause.", 2)
        run = DoctorRun(utc_now() - timedelta(hours=1), str(TESTER), None, "warning", 98, [finding])
        await record_run(tx, run)


async def test_the_operator_looks_after_the_service(visit: Visit, services: Services, world: World) -> None:
    await fill(services, world)
    page = await sign_in(visit, services)
    await page.goto(f"{visit.site}/operator")
    await expect(page.get_by_role("heading", name="Unmatched money")).to_be_visible()
    await expect(page.get_by_role("heading", name="Short supply")).to_be_visible()
    await check_page(page, "operator-today")
    await page.get_by_role("link", name="Show all 12").click()
    await expect(page.get_by_text("1234.56 EUR")).to_have_count(12)
    await page.get_by_role("link", name="Customers", exact=True).click()
    await page.get_by_label("Search customers").fill("windjammer")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("link", name=LONG_NAME).click()
    await page.get_by_label("Fee in per cent").fill("120")
    await page.get_by_role("button", name="Change the fee").click()
    await expect(page.get_by_label("Fee in per cent")).to_be_focused()
    await page.get_by_label("Fee in per cent").fill("12.5")
    await page.get_by_role("button", name="Change the fee").click()
    await expect(page.get_by_role("status")).to_contain_text("The fee is changed.")
    await check_page(page, "operator-customer")
    await page.get_by_role("link", name="Close…").click()
    await page.get_by_label("Reason").fill("Unpaid since May")
    await page.get_by_role("button", name="Close the customer").click()
    await expect(page.get_by_text("Unpaid since May").first).to_be_visible()
    await page.get_by_role("link", name="Audit log of this customer").click()
    await expect(page.get_by_role("cell", name="organisation.closed")).to_be_visible()
    await check_page(page, "operator-audit")


async def test_jobs_and_queues_refresh_by_themselves(visit: Visit, services: Services) -> None:
    page = await sign_in(visit, services)
    await page.goto(f"{visit.site}/operator/live/jobs")
    await expect(page.get_by_text("No worker is running")).to_be_visible()
    metrics = JobMetrics()
    for job in services.jobs():
        metrics.register(job.name)
    metrics.fail("send_mails", 0.1)
    await JobReports(services.database, metrics, worker="worker-7f9c.eu-central.internal 31337").report()
    # Longer than one refresh, on a machine under load.
    await expect(page.get_by_text("1 failure in a row")).to_be_visible(timeout=PATIENCE_MS)
    await expect(page.get_by_text("Refreshes every 5 seconds")).to_be_visible()
    # In the reader's zone and format, also after a refresh.
    await expect(page.locator("#live time").first).to_have_text(re.compile(r"^\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d$"))
    await check_page(page, "operator-jobs")
