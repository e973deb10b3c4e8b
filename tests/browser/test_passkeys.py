"""Passkeys in a browser, with Chromium's virtual authenticator."""

import msgspec
import pytest
from playwright.async_api import Page, expect

from tests.browser.checks import check_page
from tests.browser.visit import Visit
from tests.support.people import PASSWORD, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings

ANN = "ann@ours.test"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Passkeys need a name. With a sign-in provider, for how the page looks."""
    return msgspec.structs.replace(
        settings,
        public_url=f"http://localhost:{settings.port}",
        oidc_issuer="https://id.example.com",
        oidc_client_id="tonne",
        oidc_name="your company account",
    )


async def add_authenticator(page: Page) -> None:
    """A phone that verifies its user."""
    cdp = await page.context.new_cdp_session(page)
    await cdp.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    await cdp.send("WebAuthn.addVirtualAuthenticator", {"options": options})


async def test_a_passkey_is_added_used_renamed_and_removed(visit: Visit, services: Services, world: World) -> None:
    await add_user(services, ANN, world.ours_test.scope.organisation_id)
    page = await visit("/dashboard/sign-in?next=/dashboard/you")
    await add_authenticator(page)
    await expect(page.get_by_role("link", name="Sign in with your company account")).to_be_visible()
    await check_page(page, "sign-in-passkey")
    await page.get_by_label("E-mail address").fill(ANN)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await page.get_by_label("Name of the new passkey").fill("Ann's phone")
    await page.get_by_role("button", name="Add a passkey").click()
    await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    await page.get_by_role("link", name="I have stored them").click()
    await expect(page.get_by_role("cell", name="Ann's phone", exact=True)).to_be_visible()
    await check_page(page, "you-passkeys")
    # The same phone cannot have two.
    await page.get_by_role("button", name="Add a passkey").click()
    await expect(page.get_by_role("alert")).to_contain_text("has a passkey for you already")

    # The passkey alone.
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_role("button", name="Sign in with a passkey").click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()

    # After the password.
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_label("E-mail address").fill(ANN)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await check_page(page, "second-step-passkey")
    await page.get_by_role("button", name="Use a passkey").click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()

    await page.goto(f"{visit.site}/dashboard/you")
    await page.get_by_role("link", name="Rename or remove Ann's phone").click()
    await page.get_by_label("Name of the passkey").fill("Ann's old phone")
    await page.get_by_role("button", name="Rename").click()
    await expect(page.get_by_role("status")).to_have_text("The passkey is renamed.")
    await page.get_by_role("link", name="Rename or remove Ann's old phone").click()
    await expect(page.get_by_text("your password alone is enough")).to_be_visible()
    await check_page(page, "passkey")
    await page.get_by_role("button", name="Remove").click()
    await expect(page.get_by_role("status")).to_have_text("The passkey is removed.")
