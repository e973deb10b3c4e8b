"""Paid and cancelled invoices do not ask for money."""

import pytest

from tests.money.invoices.billing import ADA, Billing, pdf_text, sheet_of, text_of
from tests.money.invoices.test_pdf import RECORD
from tests.support.command import output_of
from tests.support.pdf_pages import lacks_signs, outside
from tests.support.world import TESTER, World
from tonne.money.invoices.cancel_order import cancel_order
from tonne.money.invoices.documents.record import Closing
from tonne.money.invoices.documents.state_sheet import Credit, InvoiceState, state_pdf
from tonne.platform.values.context import Mode

MARGIN_MM = 10


@pytest.mark.parametrize(
    ("closing", "title", "said"),
    [
        (Closing("paid", "2026-12-05"), "Payment confirmation", "Paid on 5 December 2026, nothing is due"),
        (Closing("credited", "2026-12-05"), "State of the invoice", "Credited in full on 5 December 2026, nothing is"),
        (Closing("cancelled", "2026-12-29"), "State of the invoice", "Cancelled on 29 December 2026, do not pay"),
    ],
)
def test_money_15_the_sheet_of_a_closed_invoice_does_not_ask_for_money(closing: Closing, title: str, said: str) -> None:
    note = Credit("CN-LIVE-000007", "2026-12-01", "20.00")
    pdf = state_pdf(RECORD, InvoiceState("2026-12-30", closing, [note], "22000.00", "0.00"))
    text = " ".join(pdf_text(pdf).split())
    for shown in (title, said, "INV-000042", "22020.00", "Credit note CN-LIVE-000007 of 1 December 2026", "-22000.00"):
        assert shown in text
    assert "This is not an invoice. For your tax records, use invoice INV-000042." in text
    for asked in ("Please pay", "IBAN", "GB33", "DUE ON", "Due on"):
        assert asked not in text
    assert not list(outside(pdf, MARGIN_MM))
    assert not lacks_signs(pdf)


@pytest.mark.parametrize("mode", Mode)
async def test_money_15_a_paid_invoice_is_resent_as_paid(billing: Billing, world: World, mode: Mode) -> None:
    tenant = world.ours_live if mode is Mode.LIVE else world.ours_test
    order = await billing.place_order(tenant.scope)
    await billing.work()
    if mode is Mode.LIVE:
        billing.clock.turn_to(3, 5)
        await billing.settle(order)
    words = ("invoice", "resend", "1", "--mode", mode.value)
    assert output_of(*words, database_url=billing.database._url).endswith(f"will be mailed to {ADA}.")
    *_, mail = await billing.mails()
    assert "nothing is due" in mail["Subject"]
    for text in (text_of(mail), sheet_of(mail)):
        assert "lease pay" not in text
    if mode is Mode.LIVE:
        assert mail["Subject"] == "Invoice TN-LIVE-000001: paid on 5 March 2026, nothing is due"
        assert "It was paid on 5 March 2026. Nothing is due." in text_of(mail)
        assert "Paid on 5 March 2026, nothing is due" in sheet_of(mail)


async def test_money_15_a_cancelled_invoice_is_resent_as_cancelled(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    async with billing.database.transaction() as tx:
        await cancel_order(tx, order, by=TESTER.at(billing.clock()), reason="x")
    output_of("invoice", "resend", "TN-LIVE-000001", database_url=billing.database._url)
    *_, mail = await billing.mails()
    assert mail["Subject"] == "Invoice TN-LIVE-000001: cancelled on 1 March 2026, do not pay"
    assert "Please do not pay it." in text_of(mail)
    assert "Cancelled on 1 March 2026, do not pay" in sheet_of(mail)
    assert "IBAN" not in sheet_of(mail) + text_of(mail)
