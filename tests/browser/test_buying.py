"""Buying in a browser: from the amount to the order; and the pages of the accounts."""

from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.test_dashboard import sign_in
from tests.browser.visit import Visit
from tests.support.world import World, add_account
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import AccountKind

CLIENT = AccountKind.CLIENT_ACCOUNT
LONG = "Hochseefischereigenossenschaft Nordfriesland und Dithmarschen"


async def test_an_owner_buys_with_a_purchase_order(visit: Visit, services: Services, world: World) -> None:
    page = await sign_in(visit, services, world)
    base = f"/dashboard/test/{world.ours_test.scope.organisation_id}"
    async with services.database.transaction() as tx:
        for number in range(30):
            scope = await add_account(
                tx, world.ours_test.scope.organisation_id, Mode.TEST, kind=CLIENT, beneficiary=LONG
            )
            await tx.execute("UPDATE accounts SET name = $2 WHERE id = $1", scope.account_id, f"{LONG} {number}")
    await page.goto(f"{visit.site}{base}/buy")
    await page.get_by_label("Amount").fill("12.5")
    shares = page.locator("input.share")
    await shares.first.fill("50")
    await expect(page.locator(".mix-sum")).not_to_have_text("Adds up to 100 %")
    await page.get_by_role("button", name="See the quote").click()
    await expect(page.get_by_text("They must sum to exactly 100.")).to_be_visible()
    await check_page(page, "buy")
    for number in range(await shares.count()):
        await shares.nth(number).fill("100" if number == 0 else "")
    await expect(page.locator(".mix-sum")).to_have_text("Adds up to 100 %")
    await page.get_by_label("Purchase order number").fill("PO 2026-0042")
    await page.get_by_role("button", name="See the quote").click()
    await expect(page.get_by_role("heading", name="Check the quote")).to_be_visible()
    await check_page(page, "buy-review")
    await page.get_by_role("button", name="Change").click()
    await expect(page.get_by_label("Amount")).to_have_value("12.5")
    await page.get_by_role("button", name="See the quote").click()
    await page.get_by_role("button", name="Place the order").click()
    await expect(page.get_by_role("status")).to_contain_text("The order is placed.")
    await expect(page.get_by_text("PO 2026-0042").first).to_be_visible()
    await page.goto(f"{visit.site}{base}/accounts")
    await check_page(page, "accounts")
    await page.get_by_role("link", name="account test", exact=True).click()
    await expect(page.get_by_role("heading", name="Default mix")).to_be_visible()
    await check_page(page, "account")
