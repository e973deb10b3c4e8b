"""Visits and payments of offset links in a browser: before anybody came, then after a year."""

from datetime import timedelta

from playwright.async_api import expect

from tests.apps.workspace.test_link_figures import add
from tests.browser.checks import check_page
from tests.browser.test_dashboard import sign_in
from tests.browser.visit import Visit
from tests.channels.checkout.shopper import make_link
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import utc_now

LONG = "Klimaschutzbeitrag für Ihre Übernachtung im Hotel Miramar an der Ostsee"


async def test_the_figures_of_links(visit: Visit, services: Services, world: World) -> None:
    scope, today = world.ours_test.scope, utc_now().date()
    link = await make_link(services, scope, title=LONG)
    page = await sign_in(visit, services, world)
    await page.goto(f"{visit.site}/dashboard/test/{scope.organisation_id}/links")
    await expect(page.get_by_text("Nobody has opened a link of this account in these 30 days")).to_be_visible()
    await check_page(page, "links-unopened")
    for number in range(300):
        opened = 40 + number * 37 % 90 + (400 if number == 9 else 0)
        await add(services, link, today - timedelta(days=number), *_counts(opened))
    for number in range(29):
        other = await make_link(services, scope, title=f"Link {number} of the shop")
        if number % 3 == 0:
            await add(services, other, today, *_counts(number * 11 + 1))
    await page.reload()
    await expect(page.get_by_role("img", name="Opened, begun and paid")).to_be_visible()
    await check_page(page, "links-figures")
    await page.get_by_role("link", name=LONG).click()
    await page.get_by_role("link", name="12 months").click()
    await page.get_by_text("Show as a table").click()
    await expect(page.get_by_role("row", name="12 months")).to_be_visible()
    await page.get_by_text("How this is counted").click()
    await check_page(page, "link-figures")


def _counts(opened: int) -> tuple[int, ...]:
    paid = opened // 7
    return opened, opened // 3, paid, paid * 1_250_000, paid * 2_975
