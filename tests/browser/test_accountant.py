"""An accountant in a browser: October is closed, its files are given away, and written again with equal bytes."""

from datetime import UTC, date, datetime

import msgspec
import pyotp
import pytest
from playwright.async_api import FilePayload, Page, expect

from tests.apps.backoffice.test_close_month import sell_in_october
from tests.architecture.source import ROOT
from tests.browser.checks import check_page
from tests.browser.test_money import OLGA, sign_in
from tests.browser.visit import Visit
from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.test_transfers import import_file
from tests.support.clock import ManualClock
from tests.support.people import add_user
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.books.files import FILES
from tonne.platform.settings.settings import Settings


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER, seller_country="DE", seller_vat_id="DE136695976")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 10, 5, 12, tzinfo=UTC))


async def files_of(page: Page) -> dict[str, bytes]:
    """As they are downloaded, by the names that the browser gives them."""
    found = {}
    for file in FILES.values():
        async with page.expect_download() as download:
            await page.get_by_role("link", name=file.title, exact=True).click()
        saved = await download.value
        found[saved.suggested_filename] = (await saved.path()).read_bytes()
    return found


async def test_october_is_closed_and_its_files_stay_as_they_were_given_away(
    visit: Visit, services: Services, world: World, clock: ManualClock
) -> None:
    books = await sell_in_october(services, world, clock)
    await add_user(services, OLGA, name="Olga Berg")
    page, base = await sign_in(visit, "/dashboard/you", OLGA), f"{visit.site}/operator/live"
    await page.get_by_role("button", name="Set up").click()
    await page.get_by_label("Code").fill(pyotp.TOTP(await page.locator("code.secret").inner_text()).at(clock()))
    await page.get_by_role("button", name="Turn on").click()
    # The chart of the accountant, without a shell.
    await page.goto(f"{base}/books")
    await check_page(page, "operator-books")
    await page.get_by_label("Chart", exact=True).set_input_files(ROOT / "docs" / "charts" / "skr03.csv")
    await page.get_by_label("Number of the office").fill("1001")
    await page.get_by_label("Your number there").fill("7")
    await page.get_by_role("button", name="Import the chart").click()
    await expect(page.get_by_role("status")).to_contain_text("The chart is imported.")
    await page.get_by_role("link", name="Month end").click()
    await expect(page.get_by_role("heading", name="Month end: Oct 2026")).to_be_visible()
    await books.post_entries()
    await page.reload()
    await page.get_by_role("button", name="Close the month").click()
    await page.get_by_role("button", name="Close the month").click()
    await expect(page.get_by_role("status")).to_have_text("The month is closed.")
    await books.until(lambda: books.fetchval("SELECT digests FROM closed_months"))
    given = await files_of(page)
    assert len(given) == len(FILES) >= 5
    # A payment of October is found in November.
    await import_file(books, camt_file([Line(date(2026, 10, 30), 1660, "TN-LIVE-000002", reference="B2")]))
    await books.post_entries()
    await page.reload()
    await check_page(page, "operator-month-end-closed")
    assert await files_of(page) == given
    # Whoever has only a file learns whether it is the one.
    for content, words in (
        (given["live-2026-10-journal.csv"], "Equal: the file has the bytes of “Journal, CSV”."),
        (b"x", "No file of this month has these bytes."),
    ):
        file = FilePayload(name="journal.csv", mimeType="text/csv", buffer=content)
        await page.get_by_label("A file that you gave away").set_input_files(file)
        await page.get_by_role("button", name="Compare").click()
        await expect(page.get_by_text(words)).to_be_visible()
