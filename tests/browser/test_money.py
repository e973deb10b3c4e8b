"""Money in a browser: finance sees what to pay; the operator books a statement, refunds and closes the month."""

from datetime import UTC, datetime

import msgspec
import pyotp
import pytest
from playwright.async_api import Page, expect

from tests.browser.checks import check_page, check_page_that_reloads
from tests.browser.visit import Visit
from tests.money.invoices.bank import EVE_IBAN, Line, camt_file
from tests.money.invoices.billing import ADA, Billing
from tests.support.clock import ManualClock
from tests.support.people import PASSWORD, add_user
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.selling.users.model import Role

NAME = "Nordic Association of Sustainable Hospitality and Travel AS"
OLGA, FINN = "olga@tonne.test", "finn@ours.test"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


async def bill(visit: Visit, services: Services, world: World, count: int) -> Billing:
    """Live invoices of an organisation with a long name, mailed today."""
    books = Billing(services, ManualClock(datetime.now(UTC)))
    ours = world.ours_live.scope
    async with visit.worker_paused():
        await books.renew_rates()
        await books.execute("UPDATE organisations SET name = $1 WHERE id = $2", NAME, ours.organisation_id)
        await books.add_admins(ours.organisation_id, ADA)
        for _ in range(count):
            await books.place_order(ours)
        await books.work()
    return books


async def sign_in(visit: Visit, path: str, email: str) -> Page:
    page = await visit(path)
    await page.get_by_label("E-mail address").fill(email)
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    return page


async def operator_page(visit: Visit, services: Services) -> Page:
    await add_user(services, OLGA, name="Olga Berg")
    page = await sign_in(visit, "/dashboard/you", OLGA)
    await page.get_by_role("button", name="Set up").click()
    totp = pyotp.TOTP(await page.locator("code.secret").inner_text())
    await page.get_by_label("Code").fill(totp.at(utc_now()))
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    return page


async def test_finance_closes_a_month(visit: Visit, services: Services, world: World) -> None:
    books = await bill(visit, services, world, 3)
    organisation_id = world.ours_live.scope.organisation_id
    await add_user(services, FINN, organisation_id, Role.FINANCE, name="Finn Holm")
    finn = await sign_in(visit, f"/dashboard/live/{organisation_id}/invoices", FINN)
    await the_customer_finds_how_to_pay(finn)
    olga, base = await operator_page(visit, services), f"{visit.site}/operator/live"
    await the_operator_books_a_statement(visit, olga, base, books)
    await the_operator_refunds_a_part(olga, base, books)
    async with visit.worker_paused():
        await books.post_entries()
    await the_operator_closes_the_month(olga, base, f"{books.clock():%Y-%m}")
    await finn.get_by_role("link", name="Statement", exact=True).click()
    await expect(finn.get_by_text("Closing balance")).to_be_visible()
    await expect(finn.get_by_role("cell", name="Payment", exact=True)).to_have_count(2)
    await check_page(finn, "statement")


async def the_customer_finds_how_to_pay(page: Page) -> None:
    await expect(page.get_by_role("heading", name="Invoices")).to_be_visible()
    await check_page(page, "invoices")
    await page.get_by_role("link", name="TN-LIVE-000002", exact=True).click()
    await expect(page.get_by_role("heading", name="How to pay")).to_be_visible()
    await check_page(page, "invoice")


async def the_operator_books_a_statement(visit: Visit, page: Page, base: str, books: Billing) -> None:
    """One line names its invoice, one is matched by hand, one stays."""
    await page.goto(f"{base}/money")
    await expect(page.get_by_role("link", name="€41.85")).to_be_visible()
    await check_page(page, "operator-money")
    await page.get_by_role("link", name="Statement inbox", exact=True).click()
    thanks, today = "Thank you for the offsets of the summer", books.clock().date()
    lines = [
        Line(today, 1395, "TN-LIVE-000001", payer=NAME, reference="B1"),
        Line(today, 1395, thanks, payer=f"{NAME} Oslo", iban=EVE_IBAN, reference="B2"),
        Line(today, 123456, "Unknown " * 15, payer="Somebody", iban=EVE_IBAN, reference="B3"),
    ]
    file = {"name": "statement.xml", "mimeType": "application/xml", "buffer": camt_file(lines)}
    await page.get_by_label("File", exact=True).set_input_files(file)  # type: ignore[arg-type]
    async with visit.worker_paused():
        await page.get_by_role("button", name="Show what would happen").click()
        await expect(page.get_by_role("heading", name="The file is being read")).to_be_visible()
        await check_page_that_reloads(page, "operator-statement-reading")
        await books.run_jobs(books.services.import_uploads)
    await expect(page.get_by_role("heading", name="What the import would do")).to_be_visible(timeout=60_000)
    await check_page(page, "operator-statement")
    async with visit.worker_paused():
        await page.get_by_role("button", name="Import it").click()
        await expect(page.get_by_role("heading", name="The file is being imported")).to_be_visible()
        await books.run_jobs(books.services.import_uploads)
    await expect(page.get_by_role("status")).to_have_text("The statement is imported.", timeout=60_000)
    await check_page(page, "operator-inbox")
    await page.get_by_role("button", name="Match with TN-LIVE-000002").first.click()
    await expect(page.get_by_role("heading", name="What will happen")).to_be_visible()
    await check_page(page, "operator-confirm")
    await page.get_by_role("button", name="Match it").click()
    await expect(page.get_by_role("status")).to_have_text("The transfer is matched.")
    await page.get_by_role("link", name="TN-LIVE-000002").click()
    await expect(page.get_by_text("Paid", exact=True)).to_be_visible()
    await check_page(page, "operator-invoice")
    await page.goto(f"{base}/money/inbox")
    await page.get_by_role("link", name="€1,234.56").click()
    await check_page(page, "operator-transfer")
    # What is owed is less by now.
    await page.goto(f"{base}/money")
    await expect(page.get_by_role("link", name="€13.95").first).to_be_visible()


async def the_operator_refunds_a_part(page: Page, base: str, books: Billing) -> None:
    order_id = await books.fetchval(
        "SELECT order_id FROM invoice_orders JOIN invoices ON invoices.id = invoice_id WHERE number = 1"
    )
    await page.goto(f"{base}/orders/{order_id}/refund")
    await page.get_by_label("Amount in EUR").fill("3.95")
    await page.get_by_label("Reason").fill("Delivered late")
    await page.get_by_role("button", name="Request the refund").click()
    await expect(page.get_by_role("status")).to_contain_text("refund")


async def the_operator_closes_the_month(page: Page, base: str, month: str) -> None:
    await page.goto(f"{base}/month-end/{month}")
    # The refund waits for its payment by the bank.
    await expect(page.get_by_text("1 return to payers not yet paid")).to_be_visible()
    await expect(page.get_by_text("Balanced")).to_be_visible()
    await check_page(page, "operator-month-end")
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Journal, CSV").click()
    file = await download.value
    assert file.suggested_filename == f"live-{month}-journal.csv"
    assert "TN-LIVE-000001" in (await file.path()).read_text()
