"""Paid and cancelled invoices do not ask for money."""

import pytest

from tests.money.invoices.billing import ADA, Billing, pdf_of, pdf_text, text_of
from tests.money.invoices.test_pdf import RECORD
from tests.support.command import output_of
from tests.support.pdf_pages import lacks_signs, outside
from tests.support.world import TESTER, World
from tonne.money.invoices.cancel_order import cancel_order
from tonne.money.invoices.documents.pdf import invoice_pdf
from tonne.money.invoices.documents.record import Closing
from tonne.platform.values.context import Mode

MARGIN_MM = 10


@pytest.mark.parametrize(
    ("closing", "said"),
    [
        (Closing("paid", "2026-12-05"), "Paid on 5 December 2026, nothing is due"),
        (Closing("credited", "2026-12-05"), "Credited in full on 5 December 2026, nothing is due"),
        (Closing("cancelled", "2026-12-29"), "Cancelled on 29 December 2026, do not pay"),
    ],
)
def test_money_15_the_pdf_of_a_closed_invoice_does_not_ask_for_money(closing: Closing, said: str) -> None:
    pdf = invoice_pdf(RECORD, closing)
    text = " ".join(pdf_text(pdf).split())
    assert said in text
    assert "INV-000042" in text
    assert "Total EUR 22020.00" in text
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
    for text in (text_of(mail), pdf_of(mail)):
        assert "lease pay" not in text
    if mode is Mode.LIVE:
        assert mail["Subject"] == "Invoice TN-LIVE-000001: paid on 5 March 2026, nothing is due"
        assert "It was paid on 5 March 2026. Nothing is due." in text_of(mail)
        assert "Paid on 5 March 2026, nothing is due" in pdf_of(mail)


async def test_money_15_a_cancelled_invoice_is_resent_as_cancelled(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    async with billing.database.transaction() as tx:
        await cancel_order(tx, order, by=TESTER.at(billing.clock()), reason="x")
    output_of("invoice", "resend", "TN-LIVE-000001", database_url=billing.database._url)
    *_, mail = await billing.mails()
    assert mail["Subject"] == "Invoice TN-LIVE-000001: cancelled on 1 March 2026, do not pay"
    assert "Please do not pay it." in text_of(mail)
    assert "Cancelled on 1 March 2026, do not pay" in pdf_of(mail)
    assert "IBAN" not in pdf_of(mail) + text_of(mail)
