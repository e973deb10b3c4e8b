"""The minimum order on pages of links and checkouts: buyers see what it is, and nothing is charged."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.conftest import on_one_loop
from tests.browser.test_checkout import count, fill_in, pay, to_payment
from tests.browser.visit import Visit
from tests.channels.checkout.shopper import make_link
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink

MINIMUM = "The minimum for an order is €20.00"


@on_one_loop
async def link(services: Services, world: World) -> OffsetLink:
    return await make_link(services, world.ours_test.scope, title="Travel with care")


async def set_minimum(services: Services, link: OffsetLink, minor: int) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET minimum_order_minor = $2 WHERE id = $1", link.scope.account_id, minor)
    services.directory.forget_terms(link.scope)


@pytest.mark.parametrize("javascript", [True, False])
async def test_a_link_says_what_the_minimum_is_and_keeps_what_was_typed(
    visit: Visit, link: OffsetLink, services: Services, javascript: bool
) -> None:
    await set_minimum(services, link, 2000)
    page = await visit(f"/offset/{link.id}", javascript=javascript)
    await fill_in(page, amount="0.1")
    if javascript:
        await expect(page.locator("#price")).to_contain_text(MINIMUM)
        await check_page(page, "minimum-price")
    await page.get_by_role("button", name="Continue to payment").click()
    await expect(page.locator("#amount-fault")).to_contain_text(MINIMUM)
    await expect(page.get_by_label("Amount", exact=True)).to_have_value("0.1")
    await expect(page.get_by_label("E-mail")).to_have_value("ann@example.com")
    if javascript:
        await check_page(page, "minimum-offset")
    await fill_in(page, amount="5")
    await to_payment(page)


async def test_a_minimum_that_was_raised_since_is_explained_on_the_page_of_the_checkout(
    visit: Visit, link: OffsetLink, services: Services, api: ApiClient
) -> None:
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "0.1"}
    made = (await api.post("/v1/checkouts", body)).json()
    page = await visit(urlsplit(made["url"]).path)
    await set_minimum(services, link, 2000)
    await pay(page)
    await expect(page.get_by_role("alert")).to_contain_text(MINIMUM)
    await check_page(page, "minimum-checkout")
    assert await count(services, "orders") == 0
    refused = await api.post("/v1/checkouts", body)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "quantity")


@pytest.mark.parametrize("javascript", [True, False])
async def test_an_amount_that_is_too_small_for_a_card_is_raised_in_one_click(
    visit: Visit, link: OffsetLink, javascript: bool
) -> None:
    page = await visit(f"/offset/{link.id}?quantity=0.0024", javascript=javascript)
    await expect(page.locator("#amount-fault")).to_contain_text("The minimum for a card payment is €0.50")
    offered = page.get_by_role("button", name=re.compile(r"^€0\.50 retires [\d.]+\skg$"))
    if javascript:
        # Without scripts, the checks would wait for ever.
        await check_page(page, "smallest-payment")
    await offered.click()
    await expect(page.get_by_label("Amount", exact=True)).to_have_value("0.50")
    await expect(page.locator("#amount-fault")).to_have_count(0)
    await page.get_by_label("E-mail").fill("ann@example.com")
    await to_payment(page)
    await expect(page.get_by_role("button", name="Order and pay €0.50")).to_be_visible()
