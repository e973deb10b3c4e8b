"""Orders that are billed together and paid by one charge of a stored card."""

from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from urllib.parse import urlsplit

import httpx
import pytest

from tests.money.cards.card_scene import GOOD, NEEDS_AUTHENTICATION, NO_MONEY, REFUSED, total
from tests.money.invoices.billing import parse, pdf_of, text_of
from tests.money.invoices.card_billing import CardBilling
from tests.support.world import TESTER
from tonne.apps.wiring.app import build_app
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.stored_cards import stored_cards
from tonne.money.refunds.disputes.check_payments import simulate_dispute
from tonne.money.refunds.errors import NothingToRefund, RefundExceedsPaid
from tonne.platform.documents.mail.stored_files import with_files
from tonne.selling.accounts.model import Billing
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_links import order_urls
from tonne.selling.orders.model import Order


async def test_orders_of_a_month_are_paid_by_one_charge(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    orders = [await scene.order_small() for _ in range(5)]
    await scene.run()
    assert (await scene.statuses(), await scene.taken()) == ({"placed"}, [])
    scene.clock.now = datetime(2026, 4, 1, 0, 15, tzinfo=UTC)
    await scene.run()
    assert await scene.statuses() == {"paid"}
    assert await scene.taken() == [total(orders)]
    [invoice] = await scene.invoices()
    assert (invoice["status"], invoice["payment_method"], invoice["order_count"]) == ("paid", "card", 5)
    [charge] = await scene.invoice_charges()
    assert (charge["invoice_id"], charge["order_id"], charge["status"]) == (invoice["id"], None, "captured")
    await scene.check_invariants()


async def test_the_threshold_is_charged_at_once(card_billing: CardBilling) -> None:
    await card_billing.open(billing=Billing.THRESHOLD, threshold="1.00")
    for _ in range(4):
        await card_billing.order_small()
    await card_billing.run()
    assert await card_billing.taken() == []
    await card_billing.order_small(40)
    await card_billing.run()
    assert len(await card_billing.taken()) == 1
    assert await card_billing.statuses() == {"paid"}
    await card_billing.check_invariants()


async def _bill(scene: CardBilling, count: int = 3, number: str | None = GOOD) -> list[Order]:
    """A month of small orders, up to the first charge of the card."""
    await scene.open(number)
    orders = [await scene.order_small(20 + place) for place in range(count)]
    await scene.run()
    scene.clock.now = datetime(2026, 4, 1, 0, 15, tzinfo=UTC)
    await scene.run()
    return orders


async def _mails(scene: CardBilling) -> list[EmailMessage]:
    await scene.run_jobs(scene.mail_orders)
    rows = await scene.fetch("SELECT message FROM mails ORDER BY created_at, id")
    return [parse(await with_files(row["message"], scene.services.originals.read)) for row in rows]


async def test_the_receipt_has_the_invoice_attached_and_is_the_only_mail(card_billing: CardBilling) -> None:
    await _bill(card_billing)
    [receipt] = await _mails(card_billing)
    card_billing.clock.advance(minutes=10)
    await card_billing.run()
    assert len(await _mails(card_billing)) == 1
    assert "Please find attached: TN-TEST-000001." in text_of(receipt)
    assert "TN-TEST-000001" in pdf_of(receipt)
    assert "DE89" not in pdf_of(receipt)
    assert "We have charged your card €0.63 for invoice TN-TEST-000001" in text_of(receipt)
    assert "Visa ending in 4242" in text_of(receipt)


async def test_a_declined_card_is_tried_again_and_a_new_card_pays_at_once(card_billing: CardBilling) -> None:
    scene = card_billing
    orders = await _bill(scene, number=NO_MONEY)
    assert (await scene.statuses(), await scene.taken()) == ({"placed"}, [])
    [mail] = [mail for mail in await _mails(scene) if "declined" in mail["Subject"]]
    assert "invoice TN-TEST-000001 (3 orders)" in text_of(mail)
    assert "/card/" in text_of(mail)
    scene.clock.advance(hours=1)
    await scene.run()
    assert [charge["status"] for charge in await scene.invoice_charges()] == ["failed", "failed"]
    await set_card(scene, GOOD)
    await scene.run()
    assert (await scene.statuses(), await scene.taken()) == ({"paid"}, [total(orders)])
    await scene.check_invariants()


async def set_card(scene: CardBilling, number: str) -> None:
    async with scene.database.connection() as connection:
        await stored_cards.set_card(
            connection, scene.scope, scene.gateways, customer=None, method=number, by=TESTER.at(scene.clock())
        )


async def test_orders_fail_after_the_last_decline_and_the_invoice_is_cancelled(card_billing: CardBilling) -> None:
    scene = card_billing
    await _bill(scene, number=NO_MONEY)
    for delay in (timedelta(hours=1), timedelta(days=1), timedelta(days=3)):
        scene.clock.now += delay
        await scene.run()
    rows = await scene.fetch("SELECT status, failure_reason FROM orders")
    assert {(row["status"], row["failure_reason"]) for row in rows} == {("failed", "insufficient_funds")}
    [invoice] = await scene.invoices()
    assert invoice["status"] == "cancelled"
    assert await scene.fetchval("SELECT count(*) FROM credit_notes") == 1
    assert any("could not be paid" in mail["Subject"] for mail in await _mails(scene))
    await scene.check_invariants()


async def test_a_refused_card_fails_all_orders_at_once(card_billing: CardBilling) -> None:
    await _bill(card_billing, number=REFUSED)
    rows = await card_billing.fetch("SELECT status, failure_reason FROM orders")
    assert {(row["status"], row["failure_reason"]) for row in rows} == {("failed", "card_declined")}
    await card_billing.check_invariants()


async def test_without_a_card_all_orders_fail(card_billing: CardBilling) -> None:
    await _bill(card_billing, number=None)
    rows = await card_billing.fetch("SELECT status, failure_reason FROM orders")
    assert {(row["status"], row["failure_reason"]) for row in rows} == {("failed", "card_missing")}
    await card_billing.check_invariants()


async def test_the_payer_confirms_one_charge_for_all_orders(card_billing: CardBilling) -> None:
    scene = card_billing
    orders = await _bill(scene, number=NEEDS_AUTHENTICATION)
    [charge] = await scene.invoice_charges()
    assert (charge["status"], await scene.statuses()) == ("pending", {"placed"})
    assert any("Please confirm a payment of €0.63" in mail["Subject"] for mail in await _mails(scene))
    confirmation = scene.services.order_page.bank.confirmation
    [order] = await load(scene, orders[1])
    assert await confirmation.find(order) is not None
    page = await _order_page(scene, order)
    assert "the payment of <strong>€0.63</strong> for invoice TN-TEST-000001" in page
    await confirmation.answer_simulated_bank(order, succeeds=True)
    assert await scene.statuses() == {"paid"}
    [charge] = await scene.invoice_charges()
    assert charge["status"] == "captured"
    await scene.check_invariants()


async def _order_page(scene: CardBilling, order: Order) -> str:
    async with scene.database.transaction() as tx:
        urls = await order_urls(tx, [order], settings=scene.settings, now=scene.clock())
    transport = httpx.ASGITransport(app=build_app(scene.services))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        page = await client.get(urlsplit(urls[order.id] or "").path)
        bank = await client.get(f"{urlsplit(urls[order.id] or '').path}/bank")
    assert "<code>TN-TEST-000001</code>" in bank.text
    return page.text


async def load(scene: CardBilling, *orders: Order) -> list[Order]:
    async with scene.database.connection() as connection:
        return await load_orders(connection, [order.key for order in orders])


async def test_a_payment_that_nobody_confirms_fails_all_orders(card_billing: CardBilling) -> None:
    scene = card_billing
    await _bill(scene, number=NEEDS_AUTHENTICATION)
    scene.clock.advance(days=8)
    await scene.run()
    rows = await scene.fetch("SELECT status, failure_reason FROM orders")
    assert {(row["status"], row["failure_reason"]) for row in rows} == {("failed", "authentication_required")}
    assert len(scene.gateway.cancelled) == 1
    await scene.check_invariants()


async def test_a_cancelled_order_leaves_its_group_and_its_invoice(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open(NO_MONEY)
    first, second, third = [await scene.order_small(40) for _ in range(3)]
    await scene.run()
    await scene.cancel(first)
    scene.clock.now = datetime(2026, 4, 1, 0, 15, tzinfo=UTC)
    await scene.run()
    await set_card(scene, GOOD)
    [charge] = await scene.invoice_charges()
    assert charge["amount_minor"] == total([second, third])
    await scene.cancel(second)
    scene.gateway.faults = []
    await scene.run()
    assert await scene.taken() == [total(third)]
    assert [await scene.status(order) for order in (first, second, third)] == ["cancelled", "cancelled", "paid"]
    await scene.check_invariants()


async def test_an_order_cancelled_while_the_card_is_charged_is_refunded(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    first, second = await scene.order_small(80), await scene.order_small(90)
    await scene.run_jobs(scene.issue)
    scene.clock.now = datetime(2026, 4, 1, 0, 15, tzinfo=UTC)
    await scene.run_jobs(scene.consolidate)
    due, _ = await scene.charge.claim()
    attempts = await scene.charge.open(due)
    await scene.cancel(first)
    await scene.charge.settle(await scene.charge.call_gateways(attempts))
    await scene.run()
    assert [await scene.status(order) for order in (first, second)] == ["cancelled", "paid"]
    assert await scene.taken() == [total(second)]
    await scene.check_invariants()


async def test_an_order_is_refunded_from_the_shared_charge_up_to_what_it_paid(card_billing: CardBilling) -> None:
    scene = card_billing
    first, second, third = await _bill(scene)
    await scene.refund(first, 5)
    with pytest.raises(RefundExceedsPaid):
        await scene.refund(first, total(first) - 4)
    await scene.refund(first)
    await scene.cancel_with_refund(second)
    await scene.run()
    rows = await scene.fetch("SELECT id, status, payment_state, refunded_minor FROM orders")
    assert {row["id"]: (row["status"], row["payment_state"], row["refunded_minor"]) for row in rows} == {
        first.id: ("paid", "refunded", total(first)),
        second.id: ("cancelled", "refunded", total(second)),
        third.id: ("paid", "paid", 0),
    }
    assert await scene.taken() == [total(third)]
    [charge] = await scene.invoice_charges()
    assert charge["status"] == "captured"
    assert await scene.fetchval("SELECT sum(total_minor)::bigint FROM credit_notes") == total([first, second])
    await scene.refund(third)
    await scene.run()
    [charge] = await scene.invoice_charges()
    assert charge["status"] == "refunded"
    await scene.check_invariants()


async def test_a_refund_at_the_gateway_is_divided_among_the_orders(card_billing: CardBilling) -> None:
    scene = card_billing
    orders = await _bill(scene)
    [charge] = await scene.invoice_charges()
    gateway = SimulatedCardGateway(scene.database)
    await gateway.refund("at_the_gateway", charge["reference"], 20, "EUR")
    await scene.execute("UPDATE charges SET check_at = $1", scene.clock())
    await scene.run()
    rows = await scene.fetch("SELECT refunded_minor FROM orders ORDER BY total_cost_minor")
    assert [row["refunded_minor"] for row in rows] == [6, 7, 7]
    assert await scene.statuses() == {"paid"}
    await scene.check_invariants()
    await gateway.refund("the_rest", charge["reference"], total(orders) - 20, "EUR")
    await scene.execute("UPDATE charges SET check_at = $1", scene.clock())
    await scene.run()
    rows = await scene.fetch("SELECT status, payment_state, cancellation_reason FROM orders")
    assert {tuple(row) for row in rows} == {("cancelled", "refunded", "refunded_at_gateway")}
    await scene.check_invariants()


@pytest.mark.parametrize(("end", "state"), [(DisputeState.WON, "paid"), (DisputeState.LOST, "disputed")])
async def test_a_dispute_holds_all_orders(card_billing: CardBilling, end: DisputeState, state: str) -> None:
    scene = card_billing
    orders = await _bill(scene)
    await simulate_dispute(scene.database, scene.scope, orders[1].id, DisputeState.OPENED, scene.clock())
    states = await scene.fetch("SELECT payment_state FROM orders")
    assert [row["payment_state"] for row in states] == ["disputed"] * 3
    assert await scene.fetchval("SELECT bool_and(has_open_dispute) FROM orders")
    assert await scene.fetchval("SELECT count(*) FROM disputes") == 1
    with pytest.raises(NothingToRefund):
        await scene.refund(orders[0])
    await scene.check_invariants()
    await simulate_dispute(scene.database, scene.scope, orders[0].id, end, scene.clock())
    states = await scene.fetch("SELECT payment_state FROM orders")
    assert [row["payment_state"] for row in states] == [state] * 3
    assert await scene.statuses() == ({"paid"} if end is DisputeState.WON else {"cancelled"})
    await scene.check_invariants()


async def test_a_dispute_after_a_refund_cancels_the_refund_of_another_order(card_billing: CardBilling) -> None:
    """The dispute takes all that is left of the charge, also what the waiting refund would return."""
    scene = card_billing
    first, second, _ = await _bill(scene)
    await scene.refund(first)
    await scene.run()
    await scene.refund(second, 5)
    await simulate_dispute(scene.database, scene.scope, second.id, DisputeState.OPENED, scene.clock())
    rows = await scene.fetch("SELECT order_id, state FROM refunds")
    assert {row["order_id"]: row["state"] for row in rows} == {first.id: "succeeded", second.id: "cancelled"}
    await scene.check_invariants()


async def test_orders_below_the_minimum_of_cards_wait_for_the_next_month(card_billing: CardBilling) -> None:
    scene = card_billing
    await _bill(scene, count=1)
    assert (await scene.invoices(), await scene.statuses()) == ([], {"placed"})
    await scene.check_invariants()
    await scene.order_small(45)
    await scene.run()
    scene.clock.now = datetime(2026, 5, 1, 0, 15, tzinfo=UTC)
    await scene.run()
    [invoice] = await scene.invoices()
    assert (invoice["order_count"], await scene.statuses()) == (2, {"paid"})
    await scene.check_invariants()


async def test_an_order_of_the_first_moment_belongs_to_the_new_month(card_billing: CardBilling) -> None:
    scene = card_billing
    await scene.open()
    scene.clock.now = datetime(2026, 3, 31, 23, 59, 59, 999000, tzinfo=UTC)
    last = await scene.order_small(60)
    scene.clock.now = datetime(2026, 4, 1, tzinfo=UTC)
    first = await scene.order_small(70)
    await scene.run()
    assert await scene.invoices() == []
    scene.clock.advance(minutes=15)
    await scene.run()
    assert (await scene.status(last), await scene.status(first)) == ("paid", "placed")
    scene.clock.now = datetime(2026, 5, 1, 0, 15, tzinfo=UTC)
    await scene.run()
    assert len(await scene.taken()) == 2
    await scene.check_invariants()
