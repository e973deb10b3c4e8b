"""The operator's retirement desk, supply and catalogue in a browser."""

import pyotp
from playwright.async_api import Page, expect

from tests.browser.checks import check_page
from tests.browser.visit import Visit
from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.clock import ManualClock
from tests.support.people import PASSWORD, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode, utc_now

LONG = "Gesellschaft für nachhaltige Mobilität und Logistik mbH & Co. KG"
COSTS = (
    "registry,registry_project_id,vintage,serial_block,first_number,last_number,status,retirement_url,retired_on,"
    "unit_cost,cost_currency\nOur Registry,VCS1,2023,9731-VCS-VCU-2023,1,1200,held,,,6.10,EUR"
)


async def enter(visit: Visit, services: Services) -> Page:
    """An operator signs in with a second factor."""
    await add_user(services, "olga@tonne.test", name="Olga Berg")
    page = await visit("/dashboard/sign-in")
    await page.get_by_label("E-mail address").fill("olga@tonne.test")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await page.goto(f"{visit.site}/dashboard/you")
    await page.get_by_role("button", name="Set up").click()
    totp = pyotp.TOTP(await page.locator("code.secret").inner_text())
    await page.get_by_label("Code").fill(totp.at(utc_now()))
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    return page


async def fill(visit: Visit, services: Services, world: World) -> None:
    """Two projects with lots, orders of several customers to be retired, a pooled unit and a backorder."""
    shop = Shop(services, world, ManualClock(utc_now()), Mode.LIVE)
    async with visit.worker_paused():
        await shop.sell("wind", {"VCS1": 3, "VCS2": 1}, price="10.00")
        await shop.supply("VCS1", 2021, 40)
        await shop.supply("VCS2", 2022, 12)
        for name in ("Ada", LONG):
            await shop.buy(await shop.account(name), 4 * TONNE, "wind")
        await shop.buy(await shop.account("Berta"), 250 * KILOGRAM, "wind")
        await shop.buy(await shop.account(LONG), 500 * TONNE, "wind")
        await shop.execute(
            "UPDATE orders SET status_changed_at = now() - interval '1 hour' WHERE mode = 'live' AND status = 'paid'"
        )
        await shop.work()


async def test_the_operator_confirms_retirements_and_imports_lots(
    visit: Visit, services: Services, world: World
) -> None:
    page = await enter(visit, services)
    await fill(visit, services, world)
    await page.goto(f"{visit.site}/operator/live/retirements")
    await expect(page.get_by_role("heading", name="Our Registry")).to_be_visible()
    await check_page(page, "operator-retirements")
    await page.get_by_role("link", name="Project VCS1", exact=True).click()
    await expect(page.get_by_role("button", name="Copy").first).to_be_visible()
    await page.get_by_role("checkbox").first.check()
    await page.get_by_role("button", name="Check the chosen lines").click()
    await expect(page.get_by_label("Address of the registry's page")).to_be_focused()
    await check_page(page, "operator-retirement-project")
    await page.get_by_label("Address of the registry's page").fill("https://registry.verra.org/retirements/1")
    await page.get_by_role("button", name="Check the chosen lines").click()
    await expect(page.get_by_role("heading", name="What will happen")).to_be_visible()
    await check_page(page, "operator-import-confirmations")
    await page.get_by_role("button", name="Confirm the retirement").click()
    await expect(page.get_by_role("heading", name="Retirements confirmed")).to_be_visible()
    await check_page(page, "operator-import-done")
    await page.get_by_role("link", name="Supply", exact=True).click()
    await expect(page.get_by_role("heading", name="Orders that wait for supply")).to_be_visible()
    await check_page(page, "operator-supply")
    await page.get_by_label("CSV file").set_input_files(
        {"name": "lots.csv", "mimeType": "text/csv", "buffer": COSTS.encode()}
    )
    await page.get_by_role("button", name="Show what would change").click()
    await check_page(page, "operator-import-lots")
    await page.get_by_role("button", name="Import", exact=True).click()
    await page.get_by_role("link", name="Show the supply").click()
    await page.get_by_role("link", name="Project VCS1").click()
    await check_page(page, "operator-supply-project")
    await page.locator(".supply-table a").first.click()
    await check_page(page, "operator-lot")


async def test_the_operator_schedules_a_price(visit: Visit, services: Services, world: World) -> None:
    page = await enter(visit, services)
    await fill(visit, services, world)
    await page.goto(f"{visit.site}/operator/live/catalogue")
    await check_page(page, "operator-catalogue")
    await page.get_by_role("link", name="The wind").click()
    await page.get_by_label("New price per tonne in EUR").fill("12.50")
    await page.get_by_label("Starts (UTC)").fill(f"{utc_now().year + 1}-01-01T00:00")
    await page.get_by_role("button", name="Show what would happen").click()
    await check_page(page, "operator-price-confirm")
    await page.get_by_role("button", name="Schedule the price").click()
    await expect(page.get_by_role("status")).to_have_text("The price change is scheduled.")
    await check_page(page, "operator-bundle")


async def test_the_operator_sees_what_registries_were_asked_for(visit: Visit, services: Services, world: World) -> None:
    page = await enter(visit, services)
    shop = Shop(services, world, ManualClock(utc_now()), Mode.TEST)
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2021, 40)
    async with visit.worker_paused():
        for name in ("Ada", "Registry Drift", "Registry Lost"):
            await shop.buy(await shop.account(name), 4 * TONNE, "wind")
            await shop.work()
        for _ in range(2):
            await shop.execute("UPDATE registry_accounts SET next_look_at = now()")
            await services.check_registries.run_once()
    await page.goto(f"{visit.site}/operator/test/registries")
    await expect(page.get_by_role("heading", name="Differences")).to_be_visible()
    await page.get_by_role("button", name="Settle").click()
    await expect(page.get_by_label("Reason")).to_be_focused()
    await check_page(page, "operator-registries")
    await page.get_by_role("link", name="T-").last.click()
    await expect(page.get_by_role("button", name="Look it up now")).to_be_visible()
    await check_page(page, "operator-registry-request")
    await page.get_by_role("button", name="Look it up now").click()
    await expect(page.get_by_text("The request is looked up within seconds.")).to_be_visible()
