"""The start page and the page of an unknown address in a browser."""

from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.visit import Visit
from tonne.apps.wiring.app import Services


async def test_the_start_page_leads_on_and_unknown_addresses_lead_back(visit: Visit) -> None:
    page = await visit("/")
    await expect(page.get_by_role("heading", name="Carbon credits, retired and proven")).to_be_visible()
    await check_page(page, "start")
    await page.get_by_label("Have a certificate? Check it here.").fill("no such number")
    await page.get_by_role("button", name="Verify").click()
    await expect(page.get_by_role("heading", name="Unknown certificate")).to_be_visible()
    await page.goto(f"{visit.site}/no/such/page?lang=de")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await check_page(page, "not-found")
    await page.locator(".ways a").first.click()
    await expect(page).to_have_url(f"{visit.site}/")


async def test_the_page_of_the_transparency_log_fits_narrow_screens(visit: Visit, services: Services) -> None:
    note = f"tonne.test/log\n1\n{'A' * 44}\n\n\N{EM DASH} tonne.test/log {'B' * 92}\n"
    async with services.database.transaction() as tx:
        await tx.execute(
            "WITH log AS (INSERT INTO logs (mode, generation, origin, size, published_size, opened_at, next_publish_at)"
            " VALUES ('live', 1, 'tonne.test/log', 1, 1, now(), now()) RETURNING id)"
            " INSERT INTO log_checkpoints (log_id, size, root, note, published_at)"
            " SELECT id, 1, sha256(''), $1, now() FROM log",
            note,
        )
    page = await visit("/log/")
    await expect(page.get_by_role("heading", name="Transparency log")).to_be_visible()
    await check_page(page, "transparency-log")
