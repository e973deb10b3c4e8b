"""Open invoices with a part payment or a credit note ask for what is left, not for the total."""

import asyncio
from pathlib import Path

import pytest

from tests.money.invoices.billing import Billing, pdf_of, pdf_text, text_of
from tests.money.invoices.documents import document, line
from tests.money.invoices.test_pdf_parts import embedded
from tests.support.command import Operator
from tests.support.world import TESTER, World
from tonne.money.accounting.matching.assign_transfer import unassign_transfer
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.documents.epc_qr import epc_qr_svg
from tonne.money.invoices.documents.pdf import invoice_pdf
from tonne.money.invoices.documents.record import Remaining
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Order

RECORD = document(line("standard", "19"))
PAID = Remaining(received="1.00", credited=None, due="99.00")
CREDITED = Remaining(received=None, credited="1.00", due="99.00")


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("remaining", [PAID, CREDITED], ids=["paid", "credited"])
def test_the_pdf_and_its_code_ask_for_the_rest(remaining: Remaining) -> None:
    text = words(pdf_text(invoice_pdf(RECORD, remaining=remaining)))
    assert "Please pay EUR 99.00" in text
    assert ("We have received EUR 1.00 of the total." in text) is (remaining is PAID)
    assert ("EUR 1.00 of the total was credited." in text) is (remaining is CREDITED)
    assert epc_qr_svg(RECORD, remaining) not in {None, epc_qr_svg(RECORD)}


def test_the_xml_subtracts_payments_but_not_credit_notes() -> None:
    paid = embedded(invoice_pdf(RECORD, remaining=PAID))["factur-x.xml"]
    assert b"<ram:TotalPrepaidAmount>1.00</ram:TotalPrepaidAmount>" in paid
    assert f"<ram:DuePayableAmount>{RECORD.total}".encode() not in paid
    credited = embedded(invoice_pdf(RECORD, remaining=CREDITED))["factur-x.xml"]
    assert f"<ram:DuePayableAmount>{RECORD.total}".encode() in credited


async def test_a_credited_invoice_is_resent_for_the_rest(
    billing: Billing, world: World, operator: Operator, tmp_path: Path
) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    operator.does("invoice", "credit", "TN-LIVE-000001", "3.95", "--reason", "Agreed discount")
    operator.does("invoice", "resend", "TN-LIVE-000001")
    mail = (await billing.mails())[-1]
    assert mail["Subject"].startswith("Invoice TN-LIVE-000001: €10.00, due ")
    assert "€3.95 was credited. €10.00 is missing." in words(text_of(mail))
    assert "Please pay EUR 10.00" in words(pdf_of(mail))
    path = tmp_path / "invoice.pdf"
    operator.does("invoice", "pdf", "TN-LIVE-000001", "-o", str(path))
    assert "Please pay EUR 10.00" in words(pdf_text(path.read_bytes()))
    shown = operator.does("invoice", "show", "TN-LIVE-000001")
    assert "still due     10.00 EUR" in shown


async def test_the_mail_of_a_credit_note_says_what_is_left_to_pay(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    await _receive(billing, "1.00")
    await _credit(billing, order, 395)
    await billing.mail_credit_notes.run_once()
    said = words(text_of((await billing.mails())[-1]))
    assert "€9.00 is left to pay of the invoice." in said
    assert "with the reference TN-LIVE-000001" in said
    await _credit(billing, order, 900)
    await billing.work()
    assert "Nothing is left to pay of the invoice." in words(text_of((await billing.mails())[-1]))


async def test_an_invoice_is_not_settled_with_money_that_was_just_assigned_elsewhere(
    billing: Billing, world: World
) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    await _receive(billing, "10.00")
    await _credit(billing, order, 395)
    invoice = await billing.invoice(order)
    assigned = await billing.fetchval("SELECT id FROM transfer_assignments")
    async with billing.database.transaction() as tx:
        await unassign_transfer(tx, assigned, note="Of another customer", by=TESTER.at(billing.clock()))
        # The worker has found that the invoice is covered, and waits for its order.
        worker = asyncio.create_task(billing.follow_up._take_step(invoice))
        await billing.until_waiting_for_lock()
    await worker
    assert (await billing.invoice(order)).status == "open"
    assert await billing.status(order) == "placed"
    await billing.check_invariants()


async def _credit(billing: Billing, order: Order, minor: int) -> None:
    async with billing.database.transaction() as tx:
        invoice = await billing.invoice(order)
        await correct_invoice(tx, invoice, None, minor, reason="Agreed", by=TESTER.at(billing.clock()))


async def _receive(billing: Billing, amount: str) -> None:
    content = f"booked_on,amount,currency,payer,reference\n2026-03-02,{amount},EUR,Ada,TN-LIVE-000001\n"
    async with billing.database.transaction() as tx:
        file = SheetFile("statement.csv", content.encode())
        await import_statement(tx, Mode.LIVE, file, settings=billing.settings, by=TESTER.at(billing.clock()))
