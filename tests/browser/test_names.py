"""The customer's name at checkout, and certificates that were replaced, in a browser."""

from urllib.parse import urlsplit

from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.conftest import on_one_loop
from tests.browser.test_checkout import fill_in, pay, to_payment
from tests.browser.visit import Visit
from tests.channels.checkout.shopper import make_link
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import LinkBeneficiary, OffsetLink

LONG = "Maria Magdalena Katharina Keller-Oberhollenzer von und zu Hohenstein"


@on_one_loop
async def asking(services: Services, world: World) -> OffsetLink:
    return await make_link(
        services, world.ours_test.scope, title="Travel with care", beneficiary=LinkBeneficiary.CUSTOMER
    )


async def test_people_1_a_customer_sees_their_name_before_they_pay(
    visit: Visit, asking: OffsetLink, api: ApiClient
) -> None:
    page = await visit(f"/offset/{asking.id}")
    await fill_in(page)
    await expect(page.get_by_label("Show my name publicly")).not_to_be_checked()
    await page.get_by_label("Name on the certificate").fill(LONG)
    await check_page(page, "name-offset")
    await to_payment(page)
    await expect(page.get_by_text("in the name of")).to_contain_text(LONG)
    await check_page(page, "name-checkout")
    await pay(page)
    await expect(page.get_by_text("Your credits are retired")).to_be_visible()
    await expect(page.get_by_text("in the name of")).to_contain_text(LONG)
    await check_page(page, "name-complete")
    [order] = (await api.get("/v1/orders?limit=1")).json()["data"]
    assert (order["beneficiary"], order["public_certificate_url"]) == ({"name": LONG}, None)
    old = (await api.get(f"/v1/orders/{order['id']}/certificate.json")).json()["number"]

    body = {"name": "Maria Keller", "kind": "person", "reason": "She asked for her short name."}
    await api.http.put(f"/v1/orders/{order['id']}/beneficiary", json=body, headers=api._headers({}))
    page = await visit(f"/verify/{old}")
    await expect(page.get_by_text("Replaced certificate")).to_be_visible()
    await check_page(page, "verify-replaced")
    await page.locator(".verdict a.button").click()
    await expect(page.get_by_role("heading", name="Test certificate")).to_be_visible()
    await expect(page.get_by_text("She asked for her short name.")).to_be_visible()
    await check_page(page, "verify-replacement")


async def test_people_1_a_checkout_of_the_api_asks_for_the_name(
    visit: Visit, asking: OffsetLink, api: ApiClient
) -> None:
    body = {"offset_link_id": asking.id, "email": "ann@example.com", "quantity": "1"}
    made = (await api.post("/v1/checkouts", body)).json()
    page = await visit(urlsplit(made["url"]).path)
    await expect(page.get_by_label("Show my name publicly")).not_to_be_checked()
    await page.get_by_label("Name on the certificate").fill("x" * 10 + "\u202e")
    await pay(page)
    await expect(page.locator("#name-fault")).to_be_visible()
    await check_page(page, "name-api-checkout-fault")
    await page.get_by_label("Name on the certificate").fill(LONG)
    await check_page(page, "name-api-checkout")
    await pay(page)
    await expect(page.get_by_text("in the name of")).to_contain_text(LONG)
