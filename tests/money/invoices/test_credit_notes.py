"""Credit notes: numbers, amounts, mails, corrections."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.money.invoices.billing import ADA, Billing, pdf_of, pdf_text, text_of
from tests.support.command import Operator
from tests.support.world import TESTER, World
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.credit_notes.credit_note import CreditCause, credit_in_part, without
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order
from tonne.money.invoices.credit_notes.store import list_credit_notes
from tonne.money.invoices.errors import CreditTooHigh, InvoiceNotOpen
from tonne.money.invoices.model import BilledOrder
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode
from tonne.selling.accounts.store import add_admin
from tonne.selling.orders.model import Order

HEAD = "booked_on,amount,currency,payer,reference\n"


async def _credit(billing: Billing, order: Order, amount_minor: int | None) -> None:
    async with billing.database.transaction() as tx:
        await credit_order(
            tx, order, amount_minor, cause=CreditCause.REFUND, reason="Late", by=TESTER.at(billing.clock())
        )


async def _correct(billing: Billing, order: Order, amount_minor: int) -> None:
    invoice = await billing.invoice(order)
    async with billing.database.transaction() as tx:
        await correct_invoice(tx, invoice, None, amount_minor, reason="x", by=TESTER.at(billing.clock()))


async def test_numbers_of_credit_notes_have_no_gaps_when_cancellations_race(billing: Billing, world: World) -> None:
    orders = [await billing.place_order(world.ours_live.scope) for _ in range(6)]
    await billing.work()
    await asyncio.gather(*(billing.cancel(order) for order in orders))
    rows = await billing.fetch("SELECT number FROM credit_notes WHERE mode = 'live' ORDER BY number")
    assert [row["number"] for row in rows] == [1, 2, 3, 4, 5, 6]
    await billing.check_invariants()


async def test_dates_of_credit_notes_never_run_against_their_numbers(billing: Billing, world: World) -> None:
    first, second = [await billing.place_order(world.ours_live.scope) for _ in range(2)]
    await billing.work()
    late = billing.clock.turn_to(3, 10)
    await billing.cancel(first)
    billing.clock.turn_to(3, 9)
    await billing.cancel(second)
    rows = await billing.fetch("SELECT issued_on FROM credit_notes ORDER BY number")
    assert {row["issued_on"] for row in rows} == {late.date()}


async def test_a_cancelled_order_gets_its_credit_note_by_mail(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    await billing.cancel(order, "Ordered twice")
    await billing.work()
    *_, mail = await billing.mails()
    assert mail["Subject"] == "Invoice TN-LIVE-000001 has been cancelled"
    assert "credit note CN-LIVE-000001 for €13.95" in " ".join(text_of(mail).split())
    printed = " ".join(pdf_of(mail).split())
    for text in ("Credit note", "CN-LIVE-000001", "TN-LIVE-000001", "13.95", "Ordered twice", order.id):
        assert text in printed, text
    await billing.check_invariants()


async def test_a_credit_note_is_mailed_after_its_invoice_that_waited_for_an_admin(
    billing: Billing, world: World
) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.execute("DELETE FROM organisation_admins")
    await billing.work()
    await _credit(billing, order, 395)
    await billing.work()
    assert await billing.mails() == []
    async with billing.database.transaction() as tx:
        await add_admin(tx, order.scope.organisation_id, ADA, billing.clock())
    billing.clock.advance(minutes=6)
    await billing.work()
    assert [mail["Subject"].split(":")[0] for mail in await billing.mails()] == [
        "Invoice TN-LIVE-000001",
        "Credit note CN-LIVE-000001",
    ]


async def test_a_partial_credit_reduces_a_paid_invoice_and_changes_nothing_else(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    await billing.settle(order)
    await _credit(billing, order, 395)
    invoice = await billing.invoice(order)
    assert (invoice.status, invoice.due_minor, invoice.settled_minor) == ("paid", 1000, 1395)
    await billing.work()
    *_, mail = await billing.mails()
    assert mail["Subject"] == "Credit note CN-LIVE-000001: €3.95 on invoice TN-LIVE-000001"
    await _credit(billing, order, None)
    await _credit(billing, order, 1)
    async with billing.database.connection() as connection:
        notes = await list_credit_notes(connection, invoice)
    assert [note.total_minor for note in notes] == [395, 1000]
    await billing.check_invariants()


async def test_more_than_what_is_left_cannot_be_credited(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    with pytest.raises(CreditTooHigh, match=r"Only 13\.95 EUR"):
        await _credit(billing, order, 1396)
    with pytest.raises(CreditTooHigh, match="tonne order cancel"):
        await _correct(billing, order, 1395)
    assert await billing.fetch("SELECT FROM credit_notes") == []


async def test_a_correction_can_make_a_part_payment_sufficient(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    line = b"2026-03-05,13.00,EUR,Ada,TN-LIVE-000001"
    async with billing.database.transaction() as tx:
        file = SheetFile("march.csv", HEAD.encode() + line)
        await import_statement(tx, Mode.LIVE, file, settings=billing.settings, by=TESTER.at(billing.clock()))
    assert await billing.status(order) == "placed"
    await _correct(billing, order, 95)
    await billing.work()
    assert await billing.status(order) == "paid"
    invoice = await billing.invoice(order)
    assert (invoice.status, invoice.settled_minor) == ("paid", 1300)
    await billing.check_invariants()
    with pytest.raises(InvoiceNotOpen):
        await _correct(billing, order, 1)


async def test_an_operator_credits_and_prints(
    billing: Billing, world: World, operator: Operator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.work()
    said = operator.does("invoice", "credit", "TN-LIVE-000001", "3.95", "--reason", "Agreed discount")
    assert said.strip() == "Credit note CN-LIVE-000001 for 3.95 EUR is issued."
    shown = operator.does("invoice", "show", "TN-LIVE-000001")
    assert "CN-LIVE-000001" in shown
    assert "Agreed discount" in shown
    path = tmp_path_factory.mktemp("notes") / "note.pdf"
    operator.does("invoice", "credit-pdf", "cn-live-000001", "-o", str(path))
    assert "Agreed discount" in " ".join(pdf_text(path.read_bytes()).split())


_MOMENT = datetime(2026, 3, 1, tzinfo=UTC)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.none() | st.integers(0, 10**9), st.data())
def test_parts_of_an_order_never_exceed_it_and_sum_to_it(
    offset: int, fee: int, tax: int | None, data: st.DataObject
) -> None:
    total = offset + fee + (tax or 0)
    left = BilledOrder(
        invoice_id="inv_1",
        account_id="acc_1",
        order_id="ord_1",
        reference="",
        placed_at=_MOMENT,
        quantity_grams=1,
        offset_minor=offset,
        fee_minor=fee,
        tax_minor=tax,
        total_minor=total,
    )
    while left.total_minor > 0:
        amount = data.draw(st.integers(max(1, left.total_minor // 3), left.total_minor))
        part = credit_in_part(left, amount)
        assert part.total_minor == amount == part.offset_minor + part.fee_minor + (part.tax_minor or 0)
        left = without(left, part)
        assert min(left.offset_minor, left.fee_minor, left.tax_minor or 0) >= 0
    assert (left.offset_minor, left.fee_minor, left.tax_minor or 0) == (0, 0, 0)
