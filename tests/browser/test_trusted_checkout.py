"""Signed links, checkouts of the API, changed offers and closed links in a browser."""

import re
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.async_api import Page, expect

from tests.browser.checks import check_page
from tests.browser.conftest import on_one_loop
from tests.browser.test_checkout import CONSENT
from tests.browser.visit import Visit
from tests.channels.checkout.scene import Rows, change_price
from tests.channels.checkout.shopper import GOOD_CARD, make_link, signed
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink

THANKS = "Thank you"


@on_one_loop
async def link(services: Services, world: World) -> OffsetLink:
    return await make_link(services, world.ours_test.scope, title="Travel with care")


async def pay(page: Page) -> None:
    await page.get_by_label("Card number").fill(GOOD_CARD)
    await page.get_by_label(CONSENT).check()
    await page.get_by_role("button", name=re.compile("^Order and pay ")).click()


@pytest.mark.parametrize("javascript", [True, False])
async def test_security_6_a_signed_link_has_nothing_to_edit(
    visit: Visit, link: OffsetLink, world: World, api: ApiClient, javascript: bool
) -> None:
    bundle = next(iter(world.bundles_test.values()))
    query = signed(link, quantity="0.5", email="ann@example.com", external_id="A-1", bundle_id=bundle)
    page = await visit(f"/offset/{link.id}?{urlencode(query)}", javascript=javascript)
    await expect(page.get_by_label("Amount", exact=True)).to_have_count(0)
    await expect(page.get_by_role("checkbox")).to_have_count(0)
    await expect(page.get_by_label("E-mail")).not_to_be_editable()
    await expect(page.locator("#price dd.total")).to_contain_text("€")
    if javascript:
        await check_page(page, "signed-offset")
    else:
        await page.get_by_role("button", name="Update the price").click()
        await expect(page.get_by_label("E-mail")).not_to_be_editable()
    await page.get_by_role("button", name="Continue to payment").click()
    await pay(page)
    await expect(page.get_by_role("heading", name=THANKS)).to_be_visible()
    [order] = (await api.get(f"/v1/orders?offset_link_id={link.id}")).json()["data"]
    assert (order["quantity"], order["metadata"]) == ("0.5", {})
    assert (order["external_id"], order["external_id_verified"]) == ("A-1", True)


async def test_security_6_a_changed_signed_link_says_what_to_do(visit: Visit, link: OffsetLink) -> None:
    query = signed(link, quantity="0.5", external_id="A-1") | {"quantity": "0.1"}
    page = await visit(f"/offset/{link.id}?{urlencode(query)}")
    await expect(page.get_by_text("Ask the sender for a new link")).to_be_visible()
    await check_page(page, "wrong-signature")


async def test_money_2_a_checkout_of_the_api_shows_a_changed_offer_first(
    visit: Visit, link: OffsetLink, api: ApiClient, services: Services, rows: Rows
) -> None:
    body = {"offset_link_id": link.id, "email": "ann@example.com", "value": "50.00", "external_id": "A-1"}
    made = (await api.post("/v1/checkouts", body)).json()
    page = await visit(urlsplit(made["url"]).path)
    await check_page(page, "api-checkout")
    await change_price(services)
    await pay(page)
    await expect(page.get_by_role("alert")).to_contain_text("instead of")
    await check_page(page, "offer-changed")
    assert await rows("SELECT id FROM orders") == []
    await page.reload()
    await expect(page.get_by_role("alert")).to_contain_text("has changed")
    await pay(page)
    await expect(page.get_by_role("heading", name=THANKS)).to_be_visible()
    paid = (await api.get(f"/v1/checkouts/{made['id']}")).json()
    assert paid["status"] == "paid"
    assert float(paid["quantity"]) < float(made["quantity"])


async def test_people_a7_a_live_link_without_a_gateway_is_closed(
    visit: Visit, services: Services, world: World
) -> None:
    live = await make_link(services, world.ours_live.scope)
    page = await visit(f"/offset/{live.id}?quantity=1")
    await expect(page.get_by_text("The seller cannot take card payments yet")).to_be_visible()
    await expect(page.get_by_role("button")).to_have_count(0)
    await check_page(page, "no-gateway")
