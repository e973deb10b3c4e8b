"""The dashboard in a browser: sign-in, the user's own page, people."""

import pyotp
from playwright.async_api import Page, expect

from tests.browser.checks import assert_light, check_page
from tests.browser.visit import Visit
from tests.support.people import PASSWORD, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now
from tonne.selling.users.model import Role

ANN = "ann@ours.test"


async def sign_in(visit: Visit, services: Services, world: World, **options: bool) -> Page:
    await add_user(services, ANN, world.ours_test.scope.organisation_id)
    page = await visit(f"/dashboard/live/{world.ours_test.scope.organisation_id}/people", **options)  # type: ignore[arg-type]
    await page.get_by_label("E-mail address").fill(ANN)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    return page


async def test_the_pages_before_signing_in(visit: Visit) -> None:
    page = await visit("/dashboard/sign-in")
    await expect(page.get_by_label("E-mail address")).to_be_focused()
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("Enter your password.")).to_be_visible()
    await expect(page.get_by_label("E-mail address")).to_be_focused()
    await check_page(page, "sign-in")
    await page.get_by_role("link", name="Forgot your password?").click()
    await page.get_by_label("E-mail address").fill(ANN)
    await page.get_by_role("button", name="Send the link").click()
    await expect(page.get_by_role("status")).to_contain_text("is on its way")
    await check_page(page, "password-ask")


async def test_an_owner_invites_a_colleague(visit: Visit, services: Services, world: World) -> None:
    page = await sign_in(visit, services, world)
    await page.get_by_role("link", name="People", exact=True).click()
    await page.get_by_label("E-mail address").fill("bob@ours.test")
    await page.get_by_label("Developer").check()
    await page.get_by_role("button", name="Send the invitation").click()
    await expect(page.get_by_role("status")).to_have_text("The invitation is on its way.")
    await expect(page.get_by_role("cell", name="bob@ours.test", exact=True)).to_be_visible()
    await check_page(page, "people")
    await assert_light(page)


async def test_the_mode_is_visible_on_every_page_and_can_be_switched(
    visit: Visit, services: Services, world: World
) -> None:
    page = await sign_in(visit, services, world)
    await expect(page.get_by_role("note")).to_have_count(0)
    await page.get_by_role("navigation", name="Mode").get_by_role("link", name="Test").click()
    await expect(page.get_by_role("note")).to_contain_text("Test mode.")
    await expect(page.get_by_role("navigation", name="Mode").locator("[aria-current]")).to_have_text("Test")


async def test_the_second_factor_is_set_up_and_used(visit: Visit, services: Services, world: World) -> None:
    page = await sign_in(visit, services, world)
    await page.get_by_role("link", name="Ann Lee", exact=True).click()
    await page.get_by_role("button", name="Set up").click()
    await check_page(page, "second-factor")
    totp = pyotp.TOTP(await page.locator("code.secret").inner_text())
    await page.get_by_label("Code").fill(totp.at(utc_now()))
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    await check_page(page, "recovery-codes")
    code = await page.locator(".codes code").first.inner_text()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_label("E-mail address").fill(ANN)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_label("Code").fill(code)
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("navigation", name="Mode")).to_be_visible()


async def test_it_works_without_javascript(visit: Visit, services: Services, world: World) -> None:
    page = await sign_in(visit, services, world, javascript=False)
    await page.set_viewport_size({"width": 360, "height": 800})
    await page.get_by_role("link", name="Ann Lee", exact=True).click()
    await page.get_by_label("Current password").fill(PASSWORD)
    await page.get_by_label("New password", exact=True).fill("nine purple umbrellas")
    await page.get_by_label("New password again").fill("nine purple umbrellas")
    await page.get_by_role("button", name="Change the password").click()
    await expect(page.get_by_role("status")).to_contain_text("Your password is changed.")


async def test_hostile_names_stay_text(visit: Visit, services: Services, world: World) -> None:
    page = await sign_in(visit, services, world)
    hostile = "<img src=x onerror=alert(1)>"
    await add_user(services, "eve@ours.test", world.ours_test.scope.organisation_id, Role.READ_ONLY, name=hostile)
    await page.get_by_role("link", name="People", exact=True).click()
    await expect(page.get_by_role("cell", name=hostile, exact=True)).to_be_visible()
