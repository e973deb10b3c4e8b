"""Refunds of paid invoices by bank, and what becomes of part payments."""

from datetime import timedelta
from typing import Any

import pytest

from tests.money.invoices.bank import ADA_IBAN, Line, camt_file
from tests.money.invoices.billing import Billing, text_of
from tests.money.invoices.test_transfers import ADA, DAY, bill, import_file, open_returns, states
from tests.support.world import TESTER, World
from tonne.money.bank.errors import ReturnInvalid
from tonne.money.bank.return_transfer import confirm_return, plan_return
from tonne.money.invoices.cancel_order import cancel_order
from tonne.selling.orders.queue import lock_order

NEXT = DAY + timedelta(days=1)


class TestRefunds:
    async def test_a_paid_invoice_is_refunded_from_its_transfers(self, billing: Billing, world: World) -> None:
        [order] = await bill(billing, world)
        lines = [Line(DAY, 1000, "TN-LIVE-000001", reference="R1"), Line(NEXT, 395, "TN-LIVE-000001", reference="R2")]
        await import_file(billing, camt_file(lines))
        invoice = await billing.invoice(order)
        facts: dict[str, Any] = {"reason": "goodwill", "by": TESTER.at(billing.clock.now)}
        async with billing.database.transaction() as tx:
            planned = await plan_return(tx, invoice, 1100, **facts)
        assert [each.amount_minor for each in planned] == [1000, 100], "of as few transfers as possible"
        assert await states(billing) == ["to_return", "to_return"]
        await billing.check_invariants()
        async with billing.database.transaction() as tx:
            with pytest.raises(ReturnInvalid, match=r"2\.95 EUR left"):
                await plan_return(tx, invoice, 296, **facts)
            for each in planned:
                await confirm_return(tx, each.id, "x", settings=billing.settings, by=ADA.at(billing.clock.now))
        assert await states(billing) == ["returned", "returned"]
        await billing.check_invariants()

    async def test_an_invoice_settled_by_hand_has_nothing_to_refund_from(self, billing: Billing, world: World) -> None:
        [order] = await bill(billing, world)
        await billing.settle(order)
        async with billing.database.transaction() as tx:
            with pytest.raises(ReturnInvalid):
                await plan_return(tx, await billing.invoice(order), 1, reason="x", by=TESTER.at(billing.clock.now))


async def test_a_part_payment_is_returned_when_the_client_cancels(billing: Billing, world: World) -> None:
    [order] = await bill(billing, world)
    await import_file(billing, camt_file([Line(DAY, 1394, "TN-LIVE-000001", reference="R1")]))
    assert await states(billing) == ["part_payment"]
    async with billing.database.transaction() as tx:
        locked = await lock_order(tx, order.scope, order.id)
        assert locked is not None
        await cancel_order(tx, locked, by=TESTER.at(billing.clock.now), reason="Ordered twice")
    await billing.work()
    assert await states(billing) == ["to_return"]
    [planned] = await open_returns(billing)
    assert (planned.amount_minor, planned.to_iban) == (1394, ADA_IBAN)
    *_, mail = await billing.mails()
    assert "We have received €13.94 for it, and will return it to the account it came from." in _flat(text_of(mail))
    await billing.check_invariants()


async def test_a_reminder_asks_only_for_what_is_missing(billing: Billing, world: World) -> None:
    await bill(billing, world)
    await import_file(billing, camt_file([Line(DAY, 1394, "TN-LIVE-000001", reference="R1")]))
    billing.clock.turn_to(4, 3)
    await billing.work()
    *_, mail = await billing.mails()
    assert _flat(mail["Subject"]) == "Reminder: invoice TN-LIVE-000001, €0.01 missing, was due 31 March 2026"
    text = _flat(text_of(mail))
    assert "We have received €13.94. €0.01 is missing." in text
    assert "Amount €0.01" in text
    assert "we will cancel the order and return the €13.94 to the account it came from." in text


def _flat(text: str) -> str:
    return " ".join(text.split())
