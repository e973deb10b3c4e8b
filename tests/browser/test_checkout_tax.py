"""A checkout with tax, in Chromium."""

import re

import msgspec
import pytest
from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.conftest import on_one_loop
from tests.browser.test_checkout import fill_in, pay, to_payment
from tests.browser.visit import Visit
from tests.channels.checkout.shopper import GOOD_CARD, make_link
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.settings.settings import Settings


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """With tax by country if the parameter says so."""
    changes: dict[str, str] = getattr(request, "param", {})
    seller = {"seller_country": "DE", "seller_vat_id": "DE811569869", "simplified_invoice_up_to": "EUR 15", **changes}
    return msgspec.structs.replace(settings, tax_treatment="standard", tax_rate="19", **seller)


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


async def test_the_details_of_the_invoice_follow_who_buys(visit: Visit, link: OffsetLink) -> None:
    page = await visit(f"/offset/{link.id}")
    await fill_in(page)
    await to_payment(page)
    await expect(page.get_by_label("Your name")).to_be_visible()
    await check_page(page, "checkout-person")
    await page.get_by_label("I'm buying for a business").check()
    await expect(page.get_by_label("Your name")).to_be_hidden()
    await expect(page.get_by_role("heading", name="Right of withdrawal")).to_be_hidden()
    await page.get_by_label("Company").fill("Boulangerie du Port SARL")
    await page.get_by_label("Country").select_option("FR")
    await page.get_by_label("VAT ID").fill("FR40303265045")
    await check_page(page, "checkout-business")
    await page.get_by_label("Card number").fill(GOOD_CARD)
    await page.get_by_role("button", name=re.compile("^Order and pay ")).click()
    await expect(page.get_by_text("Reverse charge: you pay no tax here.")).to_be_visible()
    await check_page(page, "checkout-reverse-charge")
    await page.get_by_label("Card number").fill(GOOD_CARD)
    await page.get_by_role("button", name=re.compile("^Order and pay ")).click()
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()


@pytest.mark.parametrize(
    "settings", [{"tax_by_country": "consumers", "simplified_invoice_up_to": "EUR 900"}], indirect=True
)
async def test_a_person_is_asked_for_the_country_and_abroad_for_the_address(visit: Visit, link: OffsetLink) -> None:
    page = await visit(f"/offset/{link.id}")
    await fill_in(page)
    await to_payment(page)
    await expect(page.get_by_label("Country")).to_be_visible()
    await expect(page.get_by_label("Street and number")).to_be_hidden()
    await check_page(page, "checkout-country")
    await page.get_by_label("Country").select_option("FR")
    await page.get_by_label("Card number").fill(GOOD_CARD)
    await page.get_by_role("button", name=re.compile("^Order and pay ")).click()
    await expect(page.locator("dl.facts")).to_contain_text("20%")
    await expect(page.get_by_label("Your name")).to_be_visible()
    await check_page(page, "checkout-abroad")
    await pay(page)
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
