"""Small orders that were fulfilled first and can still be cancelled: they join their collection afterwards."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.money.invoices.card_billing import CardBilling
from tests.money.invoices.collections import SmallOrders, small_orders
from tests.support.api_client import ApiClient, codes
from tests.support.world import TESTER, World
from tonne.money.invoices.card_payment.settle_card_invoice import simulate_card_invoice
from tonne.money.invoices.errors import InvoiceNotOpen
from tonne.money.refunds.reduce_order import ReductionRequest, reduce_order
from tonne.money.refunds.request_refund import Cancellation, cancel_by_id
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.orders.model import Order
from tonne.selling.orders.release_order import release_order

CLIENT = Actor(ActorKind.KEY, "key_of_the_client")
# 0.48 EUR each: eleven of them are above 5.00 EUR.
LARGEST = 38_000
UNPAID, PAID = "unpaid", "paid"
WAITING = "SELECT order_id FROM unbilled_orders WHERE group_id IS NULL ORDER BY order_id"
GROUPED = "SELECT order_id FROM unbilled_orders WHERE group_id IS NOT NULL ORDER BY order_id"
MONEY_BACK = "SELECT (SELECT count(*) FROM credit_notes) + (SELECT count(*) FROM refunds)"


class PatientShop(SmallOrders):
    """A shop whose customers may cancel for a day, unless an order says otherwise."""

    async def wait(self, hours: int = 24) -> None:
        async with self.database.transaction() as tx:
            await change_account(tx, self.scope, AccountChange(fulfil_delay=str(hours)), by=TESTER.at(self.clock()))

    async def begin(self) -> None:
        await self.prove()
        self.clock.advance(hours=1)
        await self.wait()

    async def cancel(self, order: Order, reason: str | None = None) -> Order:
        requested = Cancellation(reason=reason, with_refund=True)
        async with self.database.transaction() as tx:
            by = CLIENT.at(self.clock())
            return await cancel_by_id(tx, self.scope, order.id, requested, settings=self.services.settings, by=by)

    async def reduce(self, order: Order, grams: int) -> Order:
        async with self.database.transaction() as tx:
            request, by = ReductionRequest(grams), CLIENT.at(self.clock())
            return await reduce_order(tx, self.scope, order.id, request, settings=self.services.settings, by=by)

    async def release(self, order: Order) -> None:
        async with self.database.transaction() as tx:
            await release_order(tx, self.scope, order.id, by=CLIENT.at(self.clock()))

    async def waiting(self) -> list[str]:
        return [row["order_id"] for row in await self.fetch(WAITING)]

    async def grouped(self) -> list[str]:
        return [row["order_id"] for row in await self.fetch(GROUPED)]

    async def check(self) -> None:
        await self.post_entries()
        await self.check_invariants()


@pytest.fixture
async def shop(populated_db: Database, settings: Settings, world: World) -> AsyncIterator[PatientShop]:
    async with small_orders(populated_db, settings, world, PatientShop) as scene:
        assert isinstance(scene, PatientShop)
        yield scene


async def test_an_order_joins_its_collection_when_it_can_no_longer_be_cancelled(shop: PatientShop) -> None:
    await shop.begin()
    order = await shop.parcel()
    await shop.run()
    assert await shop.states([order]) == [(PAID, UNPAID)], "it is cleared, and waits"
    assert (await shop.shown(order))["fulfil_after"] == "2026-01-02T10:00:01.000Z"
    assert (await shop.waiting(), await shop.grouped()) == ([order.id], [])
    await shop.check()
    shop.clock.advance(hours=24)
    await shop.run()
    assert (await shop.waiting(), await shop.grouped()) == ([], [order.id])
    assert (await shop.states([order]))[0][0] in ("retiring", "complete")
    await shop.check()
    await shop.run_at(2026, 2, 1, 0, 16)
    assert await shop.open_invoices() == [3]
    await shop.check()


async def test_the_month_of_an_order_is_that_in_which_its_wait_ends(shop: PatientShop) -> None:
    await shop.begin()
    await shop.run_at(2026, 1, 31, 12)
    order = await shop.parcel()
    await shop.run()
    await shop.run_at(2026, 2, 1, 0, 16)
    assert await shop.invoices() == [], "its client may still cancel it"
    await shop.run_at(2026, 2, 1, 12)
    assert await shop.grouped() == [order.id]
    # Others leave and join meanwhile, which looks for the oldest order of the group again.
    other = await shop.parcel()
    await shop.run()
    await shop.run_at(2026, 2, 2, 12)
    assert await shop.grouped() == sorted([order.id, other.id])
    await shop.run_at(2026, 3, 1, 0, 16)
    [invoice] = await shop.invoices()
    assert invoice["order_count"] == 2
    await shop.check()


async def test_cancelling_before_makes_no_document_and_no_refund(shop: PatientShop) -> None:
    await shop.begin()
    order, kept = await shop.parcel(LARGEST), await shop.parcel(LARGEST)
    await shop.run()
    cancelled = await shop.cancel(order)
    assert (cancelled.status, cancelled.cancellation_reason) == ("cancelled", "requested_by_client")
    assert await shop.waiting() == [kept.id]
    await shop.check()
    await shop.run_at(2026, 1, 3)
    await shop.run_at(2026, 2, 1, 0, 16)
    [invoice] = await shop.invoices()
    assert (invoice["order_count"], invoice["credited_minor"]) == (1, 0)
    assert await shop.fetchval(MONEY_BACK) == 0
    await shop.check()


async def test_a_reduced_order_is_billed_with_what_is_left(shop: PatientShop) -> None:
    await shop.begin()
    order = await shop.parcel(LARGEST)
    await shop.run()
    reduced = await shop.reduce(order, 19_000)
    await shop.check()
    assert reduced.exact_cost < order.exact_cost
    assert await shop.fetchval("SELECT exact_cost FROM unbilled_orders") == reduced.exact_cost
    shop.clock.advance(hours=24)
    await shop.run()
    await shop.check()
    await shop.run_at(2026, 2, 1, 0, 16)
    [invoice] = await shop.invoices()
    assert (invoice["total_minor"], invoice["credited_minor"]) == (23, 0)
    assert await shop.fetchval(MONEY_BACK) == 0
    await shop.check()


async def test_a_waiting_order_counts_as_exposure(shop: PatientShop) -> None:
    await shop.begin()
    orders = [await shop.parcel(LARGEST) for _ in range(10)]
    await shop.run()
    assert await shop.states(orders) == [(PAID, UNPAID)] * 10
    beyond = await shop.parcel(LARGEST)
    await shop.run()
    assert (await shop.shown(beyond))["hold_reason"] == "collection_pending"
    assert len(shop.captured) == 1
    await shop.check()
    # One less: now there is room for it, and it leaves the collection that it had joined while it was placed.
    assert await shop.grouped() == [beyond.id]
    await shop.cancel(orders[0])
    shop.clock.advance(minutes=6)
    await shop.run()
    assert await shop.states([beyond]) == [(PAID, UNPAID)]
    assert (await shop.grouped(), beyond.id in await shop.waiting()) == ([], True)
    await shop.check()
    # When the waits end, the sum is charged at once with the next order.
    shop.clock.advance(hours=24)
    await shop.run()
    assert len(await shop.grouped()) == 10
    last = await shop.parcel(LARGEST)
    await shop.run()
    assert shop.captured[1:] == [11 * 48 - 1]
    # It waited for its payment, so that its client may cancel it from now on, with a refund.
    assert await shop.states([*orders[1:], beyond]) == [("retiring", PAID)] * 10
    assert await shop.states([last]) == [(PAID, PAID)]
    await shop.check()


async def test_a_released_order_joins_at_once(shop: PatientShop) -> None:
    await shop.begin()
    order = await shop.parcel()
    await shop.run()
    await shop.release(order)
    await shop.run()
    assert (await shop.waiting(), await shop.grouped()) == ([], [order.id])
    assert await shop.states([order]) == [("retiring", UNPAID)]
    await shop.check()


async def test_an_order_that_nobody_releases_joins_after_ninety_days(shop: PatientShop) -> None:
    await shop.begin()
    order = await shop.parcel()
    await shop.execute("UPDATE orders SET fulfil_manually = true WHERE id = $1", order.id)
    await shop.run()
    for days in (60, 25, 4):
        shop.clock.advance(days=days)
        await shop.run()
        assert await shop.waiting() == [order.id]
    shop.clock.advance(days=1)
    await shop.run()
    assert await shop.grouped() == [order.id]
    await shop.check()


async def test_a_card_that_has_paid_nothing_is_charged_before_the_wait(shop: PatientShop) -> None:
    await shop.wait()
    order = await shop.parcel(LARGEST)
    await shop.run()
    assert (await shop.states([order]), await shop.grouped()) == ([("placed", UNPAID)], [order.id])
    await shop.parcel(LARGEST)
    await shop.run_at(2026, 2, 1, 0, 16)
    assert await shop.states([order]) == [(PAID, PAID)]
    await shop.run()
    await shop.cancel(order)
    await shop.run()
    assert await shop.fetchval(MONEY_BACK) == 2, "it was billed and paid: a credit note and a refund"
    await shop.check()


async def test_the_last_decline_ends_orders_that_wait(shop: PatientShop) -> None:
    await shop.begin()
    early = [await shop.parcel(LARGEST) for _ in range(4)]
    await shop.run()
    await shop.run_at(2026, 1, 3, 9)
    assert await shop.states(early) == [("retiring", UNPAID)] * 4
    await shop.run_at(2026, 1, 31, 9)
    await shop.wait(240)
    late = await shop.parcel(LARGEST)
    await shop.run()
    shop.stripe.is_declining = True
    await shop.run_at(2026, 2, 1, 0, 16)
    for delay in (timedelta(hours=1), timedelta(days=1), timedelta(days=3)):
        assert await shop.states([late]) == [(PAID, UNPAID)]
        shop.clock.now += delay
        await shop.run()
    assert (await shop.shown(late))["cancellation_reason"] == "collection_declined"
    assert await shop.states(early) == [("retiring", UNPAID)] * 4
    assert (await shop.waiting(), await shop.fetchval(MONEY_BACK)) == ([], 0)
    await shop.check()


async def test_an_order_of_a_test_account_is_paid_seconds_after_its_wait(
    api: ApiClient, card_billing: CardBilling
) -> None:
    scene = card_billing
    await scene.order()
    await scene.run()
    scene.clock.advance(seconds=1)
    async with scene.database.transaction() as tx:
        await change_account(tx, scene.scope, AccountChange(fulfil_delay="1"), by=TESTER.at(scene.clock()))
    order = await scene.place_order(scene.scope, mass_grams=2_400)
    await scene.run()
    with pytest.raises(InvoiceNotOpen, match="Release it"):
        await simulate_card_invoice(scene.database, scene.scope, order, clock=scene.clock, settings=scene.settings)
    shown = await api.get(f"/v1/orders/{order.id}/invoice")
    assert (codes(shown), "together" in shown.text) == (["invoice_not_available"], True)
    for seconds in (10, 3_600, 6):
        assert await scene.fetchval("SELECT payment_state FROM orders WHERE id = $1", order.id) == UNPAID
        scene.clock.advance(seconds=seconds)
        await scene.run()
    assert await scene.fetchval("SELECT payment_state FROM orders WHERE id = $1", order.id) == PAID
    await scene.check_invariants()
