"""The Sustainability page in a browser."""

from datetime import date

from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.orders import complete_order
from tests.browser.visit import Visit
from tests.channels.checkout.scene import HOSTILE
from tests.channels.public_pages.scene import TEST_PAGE, logo, png, retire, set_up
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services


async def test_the_page_shows_what_was_retired(visit: Visit, api: ApiClient, services: Services, world: World) -> None:
    await set_up(api, description="All that we have retired.\nYear by year.", logo=logo(png(240, 72)))
    order = await complete_order(api, "12.5")
    for month in range(1, 13):
        await retire(services, world.ours_test.scope, date(2025, month, 1), month * 1_234_567)
    page = await visit(TEST_PAGE)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Our forest")
    await expect(page.locator(".figure")).to_have_text("109\u00a0t")
    headings = ("Retired over time", "Removal and avoidance", "By vintage", "By bundle", "Where the projects are")
    for heading in (*headings, "Projects", "Certificates", "What this means", "Download"):
        await expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
    assert await page.locator("script").count() == 0
    assert await page.locator("img.logo").evaluate("image => image.complete && image.naturalWidth") == 240
    picture = await page.locator('meta[property="og:image"]').get_attribute("content")
    preview = await page.request.get(picture or "")
    assert (preview.status, preview.headers["content-type"]) == (200, "image/png")
    await check_page(page, "sustainability")
    await page.get_by_role("link", name="2025", exact=True).click()
    await expect(page.locator(".figure")).to_have_text("96.3\u00a0t")
    await check_page(page, "sustainability-year")
    await page.get_by_role("link", name="All years").click()
    await page.get_by_role("link", name=order["public_certificate_url"].rpartition("/")[2]).click()
    await expect(page.get_by_role("heading", name="Certificate of retirement")).to_be_visible()


async def test_hostile_names_are_escaped_and_fit(
    visit: Visit, api: ApiClient, services: Services, world: World
) -> None:
    words = HOSTILE + "W" * 100
    await set_up(api, title=words, description=words * 5)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET beneficiary = $1", words)
    for number in range(9):
        name = f"{number}{words}"
        await retire(
            services,
            world.ours_test.scope,
            date(2026, number + 1, 1),
            10 ** (number + 3),
            bundle=(f"bun_{number}", name),
            project=(f"prj_{number}", name),
            project_type=words,
        )
    page = await visit(TEST_PAGE, javascript=False)
    await expect(page.get_by_role("heading", level=1)).to_have_text(words)
    watched = await visit(TEST_PAGE, locale="de-DE")
    await check_page(watched, "hostile-sustainability")
    assert await watched.locator("script, img[src=x]").count() == 0


async def test_an_empty_page_and_a_disabled_page(visit: Visit, api: ApiClient) -> None:
    await set_up(api)
    page = await visit(TEST_PAGE)
    await check_page(page, "sustainability-empty")
    await set_up(api, enabled=False)
    await page.reload()
    await expect(page.get_by_role("heading", name="Page not found")).to_be_visible()


async def test_the_widget_and_all_certificates_work_without_scripts(
    visit: Visit, api: ApiClient, services: Services, world: World
) -> None:
    await set_up(api, title="W" * 120, logo=logo(png(240, 72)))
    await complete_order(api, "0.025")
    await retire(services, world.ours_test.scope, date(2025, 1, 1), 1_234_567)
    widget = await visit("/widget/test/our-forest", javascript=False)
    await expect(widget.locator(".figure")).to_have_text("1.26\u00a0t")
    assert await widget.context.cookies() == []
    await check_page(await visit("/widget/test/our-forest", locale="de-DE"), "widget")
    certificates = await visit(f"{TEST_PAGE}/certificates")
    await check_page(certificates, "sustainability-certificates")
    await certificates.get_by_role("link", name="View").click()
    await expect(certificates.get_by_role("heading", name="Certificate of retirement")).to_be_visible()
