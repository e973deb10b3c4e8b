"""Each mail about a payment is composed outside of transactions, and sent once, whatever crashes."""

import asyncio
from datetime import UTC, datetime

from tests.money.cards.card_scene import GOOD
from tests.money.cards.payer import BILLING, PayerScene, text_of
from tests.money.invoices.card_billing import CardBilling
from tests.support.clock import MARCH, ManualClock
from tests.support.observed_calls import ComposedMails, PassedPackages, observed
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.order_pages.resend_order import OrderMail, resend_order
from tonne.money.cards.charges import settle_charges
from tonne.money.receipts.mail_orders import BATCH
from tonne.money.refunds.request_refund import Cancellation, RefundRequest, cancel_by_id, request_refund
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.web.wording import ENGLISH
from tonne.selling.orders.mails.order_mail_store import OrderMailKind
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import lock_order

EXPIRE_LEASES = "UPDATE order_mails SET due_at = now() - interval '1 second'"


async def _pay(payer: PayerScene) -> Order:
    order = await payer.order(GOOD)
    await payer.work()
    return order


async def _resend(payer: PayerScene, order: Order, *mails: OrderMail) -> None:
    async with payer.database.transaction() as tx:
        await resend_order(
            tx,
            payer.scope,
            order.id,
            mails,
            email=None,
            settings=payer.settings,
            by=TESTER.at(payer.clock()),
        )


async def test_a_worker_that_dies_after_the_claim_leaves_the_mail_to_another(payer: PayerScene) -> None:
    await _pay(payer)
    assert len(await payer.mail_orders.claim()) == 1
    assert not await payer.mail_orders.run_once(), "leased"
    await payer.execute(EXPIRE_LEASES)
    assert await payer.mail_orders.run_once()
    assert len(await payer.mails()) == 1


async def test_a_worker_that_dies_before_the_commit_sends_nothing(payer: PayerScene) -> None:
    await _pay(payer)
    due = await payer.mail_orders.claim()
    await payer.mail_orders.compose(due)
    assert await payer.fetchval("SELECT count(*) FROM mails") == 0
    await payer.execute(EXPIRE_LEASES)
    assert len(await payer.mails()) == 1


async def test_a_worker_whose_lease_expired_sends_nothing(payer: PayerScene) -> None:
    await _pay(payer)
    late = await payer.mail_orders.claim()
    composed = await payer.mail_orders.compose(late)
    await payer.execute(EXPIRE_LEASES)
    assert await payer.mail_orders.run_once()
    await payer.mail_orders.send(late, composed)
    assert len(await payer.mails()) == 1


async def test_a_late_worker_does_not_take_the_mail_from_the_one_that_holds_it(payer: PayerScene) -> None:
    await _pay(payer)
    late = await payer.mail_orders.claim()
    await payer.execute(EXPIRE_LEASES)
    current = await payer.mail_orders.claim()
    await payer.mail_orders.send(late, await payer.mail_orders.compose(late))
    assert await payer.fetchval("SELECT count(*) FROM mails") == 0
    await payer.mail_orders.send(current, await payer.mail_orders.compose(current))
    assert len(await payer.mails()) == 1


async def test_workers_share_the_mails_of_many_orders(payer: PayerScene) -> None:
    orders = [await payer.order(GOOD) for _ in range(6)]
    await payer.work()
    await asyncio.gather(*(payer.mail_orders.run_once() for _ in range(4)))
    texts = [text_of(mail) for mail in await payer.mails()]
    assert len(texts) == len(orders) < BATCH
    assert all(sum(order.id in text for text in texts) == 1 for order in orders)


async def test_a_mail_that_cannot_be_composed_does_not_stop_the_others(payer: PayerScene) -> None:
    order, broken = [await payer.order(GOOD) for _ in range(2)]
    await payer.work()
    await payer.execute("UPDATE order_mails SET kind = 'invoice', cause = 'inv_gone' WHERE order_id = $1", broken.id)
    assert await payer.mail_orders.run_once()
    [row] = await payer.fetch("SELECT order_id, due_at > now() AS is_leased FROM order_mails")
    assert tuple(row) == (broken.id, True)
    await payer.execute("UPDATE order_mails SET kind = 'receipt'")
    await payer.execute(EXPIRE_LEASES)
    assert len(await payer.mails()) == 2
    assert order.id in text_of((await payer.mails())[0])


async def test_an_address_that_is_corrected_while_the_mail_is_composed_counts(payer: PayerScene) -> None:
    order = await _pay(payer)
    await payer.mails()
    await _resend(payer, order, OrderMail.RECEIPT)
    late = await payer.mail_orders.claim()
    composed = await payer.mail_orders.compose(late)
    await payer.mail_receipts_to("new@ours.test")
    await _resend(payer, order, OrderMail.RECEIPT)
    await payer.mail_orders.send(late, composed)
    _, mail = await payer.mails()
    assert mail["To"] == "new@ours.test"


async def test_a_refund_that_failed_meanwhile_is_not_mailed(payer: PayerScene) -> None:
    order = await _pay(payer)
    await payer.mails()
    request = RefundRequest(amount_minor=500, reason="Goodwill")
    async with payer.database.transaction() as tx:
        await request_refund(tx, payer.scope, order.id, request, settings=payer.settings, by=TESTER.at(payer.clock()))
    await payer.run_jobs(payer.refunds)
    assert await payer.fetchval("SELECT kind FROM order_mails") == "refund"
    await payer.execute("UPDATE refunds SET state = 'failed'")
    assert len(await payer.mails()) == 1
    assert await payer.fetchval("SELECT count(*) FROM order_mails") == 0


async def test_the_receipt_has_the_day_of_the_payment(payer: PayerScene, clock: ManualClock) -> None:
    await _pay(payer)
    paid_on = ENGLISH.day(clock())
    clock.advance(days=1)
    [mail] = await payer.mails()
    assert paid_on in text_of(mail)


async def test_a_settled_charge_passes_few_packages(payer: PayerScene) -> None:
    """It was eighteen while receipts were composed in the transaction."""
    await payer.order(GOOD)
    results = await payer.worker.call_gateways(await payer.worker.claim())
    passed = PassedPackages(settle_charges)
    with observed(passed):
        await payer.worker.settle(results)
    assert {"money/cards", "selling/orders"} <= passed.names
    assert len(passed.names) <= 8, sorted(passed.names)
    assert len(await payer.mails()) == 1


async def test_no_mail_is_composed_while_orders_are_locked(payer: PayerScene) -> None:
    composed = ComposedMails()
    with observed(composed):
        order, cancelled = await _pay(payer), await _pay(payer)
        request = RefundRequest(amount_minor=500, reason="Goodwill")
        async with payer.database.transaction() as tx:
            await request_refund(
                tx, payer.scope, order.id, request, settings=payer.settings, by=TESTER.at(payer.clock())
            )
        how = Cancellation(reason="Ordered twice", with_refund=True)
        async with payer.database.transaction() as tx:
            await cancel_by_id(tx, payer.scope, cancelled.id, how, settings=payer.settings, by=TESTER.at(payer.clock()))
        await payer.run_jobs(payer.refunds)
        await _resend(payer, order, OrderMail.RECEIPT)
        kinds = {row["kind"] for row in await payer.fetch("SELECT kind FROM order_mails")}
        await payer.mails()
    assert kinds == {OrderMailKind.RECEIPT, OrderMailKind.REFUND, OrderMailKind.CANCELLED}
    assert composed.count == 6
    assert composed.while_locked == []


async def test_no_mail_about_an_invoice_is_composed_while_orders_are_locked(services: Services, world: World) -> None:
    clock = ManualClock(MARCH)
    scene = CardBilling(services, world.ours_test, clock)
    await scene.add_admin()
    composed = ComposedMails()
    with observed(composed):
        await scene.open()
        order, *_ = [await scene.order_small() for _ in range(3)]
        await scene.run()
        clock.now = datetime(2026, 4, 1, 0, 15, tzinfo=UTC)
        await scene.run()
        async with scene.database.transaction() as tx:
            await resend_order(
                tx,
                scene.scope,
                order.id,
                [OrderMail.INVOICE],
                email=None,
                settings=scene.settings,
                by=TESTER.at(clock()),
            )
        kinds = {row["kind"] for row in await scene.fetch("SELECT kind FROM order_mails")}
        await scene.run_jobs(scene.mail_orders)
    assert kinds == {OrderMailKind.INVOICE_RECEIPT, OrderMailKind.INVOICE}
    assert composed.count >= 2
    assert composed.while_locked == []


async def test_the_guard_notices_a_mail_that_is_composed_while_an_order_is_locked(payer: PayerScene) -> None:
    order = await _pay(payer)
    composed = ComposedMails()
    with observed(composed):
        async with payer.database.transaction() as tx:
            await lock_order(tx, payer.scope, order.id)
            compose_mail(payer.settings, [BILLING], "A subject", "A text", wording=ENGLISH)
        compose_mail(payer.settings, [BILLING], "A subject", "A text", wording=ENGLISH)
    assert composed.count == 2
    assert composed.while_locked == ["lock_order"]
