"""Refunds through the gateway: one mail when the money is on its way, and one when a paid order is cancelled."""

import asyncio

from tests.money.cards.card_scene import GOOD
from tests.money.cards.payer import PayerScene, text_of
from tests.support.world import TESTER
from tonne.apps.wiring.app import Services
from tonne.money.refunds.request_refund import Cancellation, RefundRequest, cancel_by_id, request_refund


async def work(services: Services) -> None:
    """Make all refunds that are due."""
    while await services.refund_jobs["make_refunds"]():
        pass


async def test_a_partial_refund_is_mailed_once_it_was_made(payer: PayerScene, services: Services) -> None:
    order = await payer.order(GOOD)
    await payer.work()
    request = RefundRequest(amount_minor=500, reason="One tonne too many")
    async with payer.database.transaction() as tx:
        await request_refund(tx, payer.scope, order.id, request, settings=payer.settings, by=TESTER.at(payer.clock()))
    await payer.mails()
    assert not await payer.mail_orders.run_once(), "not before the gateway has made it"
    await work(services)
    await asyncio.gather(*(payer.mail_orders.run_once() for _ in range(3)))
    assert not await payer.mail_orders.run_once()
    _, mail = await payer.mails()
    assert mail["Subject"] == "[TEST] Your refund of €5.00"
    text = text_of(mail)
    assert "to the card that you paid with" in text
    assert "One tonne too many" in text
    assert "This does not change your order" in text
    page = await payer.open((await payer.links())["See your order"])
    assert "€5.00" in page.text


async def test_a_cancelled_paid_order_is_mailed_at_once_and_again_with_its_refund(
    payer: PayerScene, services: Services
) -> None:
    order = await payer.order(GOOD)
    await payer.work()
    async with payer.database.transaction() as tx:
        await cancel_by_id(
            tx,
            payer.scope,
            order.id,
            Cancellation(reason="Ordered twice", with_refund=True),
            settings=payer.settings,
            by=TESTER.at(payer.clock()),
        )
    _, cancelled = await payer.mails()
    assert cancelled["Subject"] == "[TEST] Your order for €13.95 was cancelled"
    page = await payer.open((await payer.links())["See your order"])
    assert "It was paid. The money is refunded" in page.text
    await work(services)
    *_, refunded = await payer.mails()
    assert refunded["Subject"] == "[TEST] Your refund of €13.95"
    assert "Your order was cancelled." in text_of(refunded)
    page = await payer.open((await payer.links())["See your order"])
    assert "€13.95 is refunded" in page.text
    await payer.check_invariants()
