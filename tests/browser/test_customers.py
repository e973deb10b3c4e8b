"""Offset links and the editor of the public page in a browser."""

from pathlib import Path

from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.test_dashboard import sign_in
from tests.browser.visit import Visit
from tests.channels.public_pages.scene import png
from tests.support.world import World
from tonne.apps.wiring.app import Services

TITLE = "Offset the emissions of your journey with Fjord & Mountain Railways"


async def test_a_link_and_the_public_page(visit: Visit, services: Services, world: World, tmp_path: Path) -> None:
    page = await sign_in(visit, services, world)
    base = f"{visit.site}/dashboard/test/{world.ours_test.scope.organisation_id}"
    await page.goto(f"{base}/links")
    await page.get_by_role("link", name="New link").click()
    await page.get_by_role("button", name="Create the link").click()
    await expect(page.get_by_label("Title")).to_be_focused()
    await check_page(page, "link-new")
    await page.get_by_label("Title").fill(TITLE)
    await page.get_by_role("button", name="Create the link").click()
    await expect(page.get_by_role("status")).to_have_text("The link is created.")
    await check_page(page, "link")
    await page.get_by_role("link", name="Offset links").first.click()
    await check_page(page, "links")
    await page.get_by_role("link", name="Public page").click()
    preview = page.frame_locator("iframe[name=preview]")
    await expect(preview.get_by_role("heading", level=1)).to_contain_text("Carbon credits retired for")
    await page.get_by_label("Title").fill(TITLE)
    await expect(preview.get_by_role("heading", level=1)).to_have_text(TITLE)
    await expect(page.get_by_label("Title")).to_be_focused()
    logo = tmp_path / "logo.png"
    logo.write_bytes(png(8, 8))
    await page.get_by_label("Logo").set_input_files(logo)
    await expect(preview.locator("img.logo")).to_be_visible()
    await page.get_by_role("button", name="Save and publish").click()
    await expect(page.get_by_role("status")).to_have_text("The page is public.")
    await expect(preview.get_by_role("heading", level=1)).to_have_text(TITLE)
    await check_page(page, "public-page")
