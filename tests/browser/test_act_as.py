"""An operator looks at the dashboard of an organisation, in a browser."""

import pyotp
from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.visit import Visit
from tests.support.people import PASSWORD, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now

OLGA = "olga@tonne.test"


async def test_an_operator_looks_at_a_customer(visit: Visit, services: Services, world: World) -> None:
    await add_user(services, OLGA, name="Olga Berg")
    page = await visit("/operator")
    await page.get_by_label("E-mail address").fill(OLGA)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    # Without a second factor there is only the page where it is set up.
    await expect(page.get_by_role("status")).to_contain_text("The operator area needs a second factor.")
    await expect(page.get_by_text("Browsers make passkeys for names only")).to_be_visible()
    await page.get_by_role("button", name="Set up").click()
    totp = pyotp.TOTP(await page.locator("code.secret").inner_text())
    await page.get_by_label("Code").fill(totp.at(utc_now()))
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()

    organisation_id = world.ours_test.scope.organisation_id
    await page.goto(f"{visit.site}/operator/live/customers/{organisation_id}/act-as")
    await expect(page.get_by_label("Reason")).to_be_focused()
    await check_page(page, "operator-act-as")
    await page.get_by_label("Reason").fill("Ticket 4711: they cannot find the invoice of May, and asked us to look")
    await page.get_by_role("button", name="Look at the dashboard").click()
    await page.goto(f"{visit.site}/dashboard/test/{organisation_id}/people")
    await expect(page.get_by_text("You are looking at Ours as its operator")).to_be_visible()
    await check_page(page, "acting")
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_role("navigation", name="Operator")).to_be_visible()
