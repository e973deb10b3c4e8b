"""The command palette: Ctrl K, type, Enter."""

from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.test_dashboard import sign_in
from tests.browser.visit import Visit
from tests.support.orders import place
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now


async def test_ctrl_k_jumps_to_an_order_and_to_a_page(visit: Visit, services: Services, world: World) -> None:
    order = await place(services, world.ours_live.scope, utc_now())
    page = await sign_in(visit, services, world)
    await expect(page.get_by_role("heading", name="People")).to_be_visible()
    await page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Search")
    await expect(palette.get_by_role("link", name="People")).to_be_visible()
    await check_page(page, "palette")
    await palette.get_by_role("searchbox").fill(order.id)
    await expect(palette.get_by_role("link")).to_have_count(1)
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/orders/{order.id}")
    await page.keyboard.press("Control+k")
    await page.keyboard.press("Escape")
    await expect(palette).to_have_count(0)
    await page.get_by_role("searchbox", name="Search").fill("nothing has this name")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Nothing found")).to_be_visible()
    await check_page(page, "jump")
