"""Pages in other languages, and in a language that is written from right to left."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.checks import STICKING_OUT, screenshot
from tests.browser.conftest import on_one_loop
from tests.browser.orders import complete_order
from tests.browser.visit import Visit
from tests.channels.checkout.shopper import make_link
from tests.channels.public_pages.scene import TEST_PAGE, set_up
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink

WIDTHS = (360, 1440)
# As with a catalogue of such a language: the attribute is all that the frame adds for it.
TURN = "() => { document.documentElement.dir = 'rtl'; }"


@on_one_loop
async def link(services: Services, world: World) -> OffsetLink:
    return await make_link(services, world.ours_test.scope, title="Reisen mit Bedacht", preset_quantity_grams=1_500_000)


async def test_the_switch_keeps_the_visitor_on_the_page(visit: Visit, link: OffsetLink) -> None:
    page = await visit(f"/offset/{link.id}?quantity=2", locale="ar-EG", javascript=False, width=360)
    await expect(page.locator("html")).to_have_attribute("lang", "en")
    await page.get_by_role("navigation", name="Language").get_by_role("link", name="Deutsch").click()
    await expect(page).to_have_url(f"{visit.site}/offset/{link.id}?quantity=2&lang=de")
    await expect(page.locator("html")).to_have_attribute("lang", "de")
    await page.get_by_label("E-Mail").fill("eva@example.com")
    await page.get_by_role("button", name="Weiter zur Zahlung").click()
    await expect(page.get_by_role("button", name="Zahlungspflichtig bestellen")).to_be_visible()


@pytest.mark.usefixtures("world")
async def test_pages_do_not_break_from_right_to_left(visit: Visit, api: ApiClient, link: OffsetLink) -> None:
    order = await complete_order(api)
    await set_up(api)
    number = order["public_certificate_url"].rpartition("/")[2]
    paths = ["/", f"/offset/{link.id}", TEST_PAGE, f"/certificates/{number}", "/verify", f"/verify/{number}", "/none"]
    page = await visit(paths[0], width=WIDTHS[0])
    for path in paths:
        await page.goto(f"{visit.site}{path}")
        await _assert_turned(page)


async def _assert_turned(page: Page) -> None:
    await page.evaluate(TURN)
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        found = await page.evaluate(STICKING_OUT)
        assert not found, f"{page.url} at {width} pixels from right to left: {found}"
    await screenshot(page, f"rtl-{page.url.rpartition('/')[2]}")
