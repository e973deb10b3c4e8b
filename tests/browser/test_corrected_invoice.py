"""In a browser: finance corrects the reference of an invoice that was paid; the operator sees all of it."""

from datetime import UTC, datetime

import msgspec
import pytest
from playwright.async_api import expect

from tests.browser.checks import check_page
from tests.browser.test_money import FINN, operator_page, sign_in
from tests.browser.visit import Visit
from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.billing import ADA, Billing
from tests.money.invoices.test_replaced_invoices import SELLER_WITH_TAX, set_profile
from tests.money.invoices.test_transfers import import_file
from tests.support.clock import ManualClock
from tests.support.people import add_user, approver
from tests.support.world import ADDRESS, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.selling.users.guarded_settings import NoteSettings
from tonne.selling.users.model import Role

LEITWEG = "04011000-1234512345-06"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER_WITH_TAX)


async def test_a_wrong_reference_is_corrected_in_two_clicks(visit: Visit, services: Services, world: World) -> None:
    books = Billing(services, ManualClock(datetime.now(UTC).replace(microsecond=0)))
    ours = world.ours_live.scope
    async with visit.worker_paused():
        await books.renew_rates()
        await books.add_admins(ours.organisation_id, ADA)
        await set_profile(books, world, **ADDRESS, buyer_reference="PO 1")
        order = await books.place_order(ours)
        await books.work()
        invoice = await books.invoice(order)
        paid = Line(books.clock().date(), invoice.total_minor, invoice.reference)
        await import_file(books, camt_file([paid]))
    await set_profile(books, world, buyer_reference=LEITWEG, einvoice="xrechnung", endpoint=f"0204:{LEITWEG}")
    await add_user(services, FINN, ours.organisation_id, Role.FINANCE, name="Finn Holm")
    page = await sign_in(visit, f"/dashboard/live/{ours.organisation_id}/documents", FINN)
    await check_page(page, "documents")
    await page.get_by_role("link", name="Correct TN-LIVE-000001").click()
    await expect(page.get_by_label("Reference")).to_have_value(LEITWEG)
    await check_page(page, "replace-invoice")
    await page.get_by_role("button", name="Issue the other invoice").click()
    await expect(page.get_by_role("heading", name="TN-LIVE-000002")).to_be_visible()
    await expect(page.get_by_text("This invoice was paid on")).to_be_visible()
    await check_page(page, "replaced-invoice")
    async with visit.worker_paused():
        await books.work()
    async with page.expect_download() as download:
        await page.get_by_role("link", name="UBL of TN-LIVE-000002").click(modifiers=["Alt"])
    assert LEITWEG.encode() in (await (await download.value).path()).read_bytes()
    await page.get_by_role("link", name="Documents", exact=True).click()
    await expect(page.get_by_text("replaced by TN-LIVE-000002")).to_be_visible()
    await check_page(page, "documents-replaced")
    await page.get_by_role("link", name="Tax", exact=True).click()
    await expect(page.get_by_label("Electronic invoice beside the PDF")).to_have_value("xrechnung")
    await check_page(page, "tax")
    olga = await operator_page(visit, services)
    await olga.goto(f"{visit.site}/operator/live/documents")
    await check_page(olga, "operator-documents")
    await olga.get_by_role("link", name="Correct TN-LIVE-000002").click()
    await check_page(olga, "operator-replace-invoice")
    await olga.get_by_role("link", name="TN-LIVE-000002").first.click()
    await check_page(olga, "operator-replaced-invoice")
    await olga.goto(f"{visit.site}/operator/live/customers/{ours.organisation_id}/tax")
    await expect(olga.get_by_role("button", name="Preview an invoice (PDF)")).to_be_visible()
    await check_page(olga, "operator-customer-tax")
    changed = {
        "bank_iban": "FR14 2004 1010 0505 0001 3M02 606",
        "refund_approval_above": "EUR 5000, USD 5500, GBP 4300",
    }
    await approver(services.database, "omar")
    await approver(services.database, "pia")
    # The worker would note its own settings again.
    async with visit.worker_paused():
        for each in (books.settings, msgspec.structs.replace(books.settings, **changed)):
            await NoteSettings(books.database, books.clock, each).run_once()
        await olga.goto(f"{visit.site}/operator/live/money/approvals")
        await expect(olga.get_by_text("FR14 2004 1010 0505 0001 3M02 606")).to_be_visible()
        await check_page(olga, "operator-approvals")
        await books.check_invariants()
