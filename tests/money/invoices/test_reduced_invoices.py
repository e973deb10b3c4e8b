"""Open invoices with a part payment or a credit note ask for what is left, not for the total."""

import asyncio
from pathlib import Path

import pytest

from tests.money.invoices.billing import Billing, pdf_of, pdf_text, sheet_of, text_of
from tests.money.invoices.documents import document, line
from tests.support.command import Operator
from tests.support.world import TESTER, World
from tonne.money.accounting.matching.assign_transfer import unassign_transfer
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.documents.epc_qr import epc_qr_svg
from tonne.money.invoices.documents.record import Remaining
from tonne.money.invoices.documents.state_sheet import Credit, InvoiceState, state_pdf
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Order

RECORD = document(line("standard", "19"))


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("is_reminder", [False, True], ids=["state", "reminder"])
def test_the_sheet_and_its_code_ask_for_the_rest(*, is_reminder: bool) -> None:
    note = Credit("CN-LIVE-000007", "2026-12-01", "1.00")
    state = InvoiceState("2026-12-20", None, [note], "2.00", "9489.39")
    text = words(pdf_text(state_pdf(RECORD, state, is_reminder=is_reminder)))
    assert text.startswith("Reminder" if is_reminder else "State of the invoice")
    for said in ("Please pay EUR 9489.39 now", "Received -2.00", "of 1 December 2026 -1.00", "IBAN", "banking app"):
        assert said in text
    rest = Remaining("2.00", None, "9489.39")
    assert epc_qr_svg(RECORD, rest) not in {None, epc_qr_svg(RECORD)}


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
    assert "Please pay EUR 10.00 now" in words(sheet_of(mail))
    path = tmp_path / "invoice.pdf"
    operator.does("invoice", "pdf", "TN-LIVE-000001", "-o", str(path))
    assert pdf_text(path.read_bytes()) == pdf_of(mail), "the invoice stays as it was issued"
    assert "Please pay EUR 13.95 by" in words(pdf_of(mail))
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
