"""A checkout with tax, in Chromium."""

import re

import msgspec
import pytest
from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.conftest import on_one_loop
from tests.browser.test_checkout import fill_in, pay, to_payment
from tests.browser.visit import Visit
from tests.channels.checkout.shopper import make_link
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.settings.settings import Settings


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, tax_treatment="standard", tax_rate="19")


@on_one_loop
async def link(services: Services, world: World) -> OffsetLink:
    return await make_link(services, world.ours_test.scope, title="Travel with care")


async def test_tax_is_shown_before_the_payment(visit: Visit, link: OffsetLink) -> None:
    page = await visit(f"/offset/{link.id}")
    await fill_in(page)
    await expect(page.locator("#price")).to_contain_text("Without tax")
    shown = await page.locator("#price dd.total").inner_text()
    await check_page(page, "offset-with-tax")
    await to_payment(page)
    await expect(page.locator("dl.facts")).to_contain_text("19%")
    assert shown in await page.get_by_role("button", name=re.compile("^Order and pay ")).inner_text()
    await check_page(page, "checkout-with-tax")
    await pay(page)
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
