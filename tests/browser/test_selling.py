"""Buyers at an offset link: on a phone with declined cards and a changed price, and without JavaScript."""

import re

from playwright.async_api import Page, expect

from tests.browser.checks import WEIGHT, check_page
from tests.browser.conftest import on_one_loop
from tests.browser.test_checkout import CONSENT, count
from tests.browser.visit import Visit
from tests.channels.checkout.scene import change_price
from tests.channels.checkout.shopper import make_link
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import LinkBeneficiary, OffsetLink

# The elements in the order in which a screen reader reads them.
OFFSET_PAGE = (
    *("banner:", "sold by", "main:", "Travel with care", "How much?", "Tonnes of CO₂", "Amount", "Suggested amounts"),
    *("Choose what to support", "E-mail", "Name on the certificate", "Your price", "Continue to payment"),
    "contentinfo:",
)
PAYMENT_PAGE = (
    *("banner:", "main:", "Travel with care", "Your order", "Edit order", "Simulated payment", "Card number"),
    *("Test cards", "buying for a business", "Right of withdrawal", "I ask", "Order and pay", "contentinfo:"),
)


@on_one_loop
async def link(services: Services, world: World) -> OffsetLink:
    ids = list(world.bundles_test.values())[:3]
    return await make_link(
        services,
        world.ours_test.scope,
        title="Travel with care",
        bundle_selection=[{"bundle_id": each} for each in ids],
        preset_quantity_grams=1_000_000,
        beneficiary=LinkBeneficiary.CUSTOMER,
    )


async def assert_order(page: Page, names: tuple[str, ...]) -> None:
    """The accessibility tree has these texts in this order."""
    snapshot, at = await page.locator("body").aria_snapshot(), 0
    for name in names:
        at = snapshot.find(name, at)
        assert at >= 0, f"{name} is missing or too early in\n{snapshot}"


async def assert_in_view(page: Page, selector: str) -> None:
    box, size = await page.locator(selector).bounding_box(), page.viewport_size
    assert box is not None
    assert size is not None
    assert 0 <= box["y"] <= size["height"] - box["height"] + 1, box


async def test_a_buyer_on_a_phone_pays_after_a_declined_card_and_a_changed_price(
    visit: Visit, link: OffsetLink, services: Services
) -> None:
    page = await visit(f"/offset/{link.id}", width=360, touch=True)
    await assert_in_view(page, "#bar-total")
    assert await page.evaluate(WEIGHT) < 100_000
    await assert_order(page, OFFSET_PAGE)
    one = await page.locator("#bar-total").inner_text()
    await page.get_by_role("button", name="2 t", exact=True).tap()
    await expect(page.locator("#bar-total")).not_to_have_text(one)
    await page.locator(".units label", has_text="Budget in EUR").tap()
    await expect(page.locator("#amount")).to_have_value(re.compile(r"^\d+\.\d\d$"))
    await page.locator(".units label", has_text="Kilograms").tap()
    await expect(page.locator("#amount")).to_have_value(re.compile(r"^(1999|2000)"))
    await page.get_by_role("button", name="Continue to payment").tap()
    await expect(page.locator("#email-fault")).to_be_visible()
    await expect(page.get_by_label("E-mail")).to_be_focused()
    await check_page(page, "phone-offset-faults")
    await page.get_by_label("E-mail").fill("ann@example.com")
    await page.get_by_label("Name on the certificate").fill("Maria Keller")
    await page.get_by_role("button", name="Continue to payment").tap()

    await assert_order(page, PAYMENT_PAGE)
    await expect(page.locator("dl.facts")).to_be_hidden()
    await page.get_by_role("link", name="Edit order").tap()
    await expect(page.get_by_label("Name on the certificate")).to_have_value("Maria Keller")
    await page.get_by_role("button", name="Continue to payment").tap()
    await page.locator(".test-cards summary").tap()
    await page.locator(".test-card", has_text="9995").tap()
    await expect(page.get_by_label("Card number")).to_have_value("4000 0000 0000 9995")
    pay = page.get_by_role("button", name=re.compile("^Order and pay"))
    await pay.tap()
    await expect(page.locator("#consent-fault")).to_be_visible()
    await expect(page.get_by_label(CONSENT)).to_be_focused()
    await check_page(page, "phone-payment-faults")
    await page.get_by_label(CONSENT).check()
    await page.get_by_label("Card number").fill("4000 0000 0000 9995")
    await pay.tap()
    await expect(page.get_by_role("alert")).to_contain_text("The card has insufficient funds.")
    await expect(page.get_by_label("Card number")).to_be_focused()
    await expect(page.get_by_label(CONSENT)).to_be_checked()
    await page.get_by_label("Card number").fill("4242 4242 4242 4242")
    await pay.tap()
    await expect(page.get_by_role("heading", name="Thank you")).to_be_visible()

    page = await visit(f"/offset/{link.id}?email=ann@example.com", width=360, touch=True)
    await page.get_by_role("button", name="Continue to payment").tap()
    await page.get_by_label("Card number").fill("4242 4242 4242 4242")
    await page.get_by_label(CONSENT).check()
    await change_price(services)
    await page.get_by_role("button", name=re.compile("^Order and pay")).tap()
    await expect(page.get_by_role("alert")).to_contain_text("The price has changed from")
    await expect(page.get_by_label(CONSENT)).to_be_checked()
    assert (await count(services, "orders"), await count(services, "charges")) == (1, 1)


async def test_the_checkout_works_without_javascript_in_german(visit: Visit, link: OffsetLink) -> None:
    page = await visit(f"/offset/{link.id}?lang=de", javascript=False, width=360)
    await expect(page.locator("html")).to_have_attribute("lang", "de")
    await expect(page.locator("#bar-total")).to_contain_text(re.compile(r"\d,\d\d\s€"))
    await page.locator("#email").fill("ann@example.com")
    await page.locator(".suggestions-quantity .chip").first.click()
    await expect(page.locator("#amount")).to_have_value("0,5")
    await expect(page.locator("#email")).to_have_value("ann@example.com")
    await page.locator(".units input[value=value]").check()
    await page.locator(".paybar button").last.click()
    await expect(page.locator("#amount")).to_have_value(re.compile(r"^\d+,\d\d$"))
    await page.locator("#amount").press("Enter")
    await expect(page.locator("html")).to_have_attribute("lang", "de")
    await page.locator(".test-cards summary").click()
    await page.locator(".test-card").first.click()
    await page.locator("[name=withdrawal_consent]").check()
    await page.locator(".paybar button").click()
    await expect(page.locator("main .steps")).to_be_visible()
