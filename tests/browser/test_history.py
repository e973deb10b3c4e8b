"""Orders of former providers in a browser: the page of the dashboard, and the section of the public page."""

from playwright.async_api import expect

from tests.apps.workspace.test_history import state
from tests.browser.checks import check_page
from tests.browser.test_dashboard import sign_in
from tests.browser.visit import Visit
from tests.channels.public_pages.scene import TEST_PAGE, put, set_up
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services

ROWS = (
    "2024-05-01,A-1001,12.5,187.50,EUR,Former Offsets,https://offsets.example.org/retirements/1001\n"
    f"2023-01-02,{'B' * 100},1234567.123456,10000000.00,EUR,{'W' * 100},https://offsets.example.org/{'w' * 200}\n"
    "2022-12-31,C-1,0.75,,,Climate Provider,\n"
)


async def test_both_pages_show_it_apart(visit: Visit, api: ApiClient, services: Services, world: World) -> None:
    await state(services, world.ours_test.scope, ROWS)
    await set_up(api)
    await put(api, {"sections": ["history"]})
    page = await visit(TEST_PAGE)
    await expect(page.get_by_role("heading", name="Before Tonne")).to_be_visible()
    await check_page(page, "sustainability-history")
    await check_page(await visit(TEST_PAGE, locale="de-DE"), "sustainability-history-de")
    dashboard = await sign_in(visit, services, world)
    await expect(dashboard.get_by_role("heading", name="People")).to_be_visible()
    base = f"/dashboard/test/{world.ours_test.scope.organisation_id}"
    await dashboard.goto(dashboard.url.partition("/dashboard")[0] + f"{base}/orders")
    await dashboard.get_by_role("link", name="Before Tonne").click()
    await expect(dashboard.get_by_role("heading", name="Before Tonne")).to_be_visible()
    await check_page(dashboard, "dashboard-history")
