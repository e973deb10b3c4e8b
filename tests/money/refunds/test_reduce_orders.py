"""Reducing and cancelling paid orders before they are fulfilled: money stays exact, whatever is taken off, and when."""

import asyncio
import contextlib
import random
from datetime import UTC, datetime
from fractions import Fraction

import msgspec
import pytest

from tests.money.cards.card_scene import GOOD
from tests.money.refunds.documents_scene import DocumentsScene
from tests.money.refunds.refund_scene import ADA
from tests.support.clock import ManualClock
from tests.support.rounds import ROUNDS
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.books.post_entries import PostEntries
from tonne.money.cards.model import RetrySchedule
from tonne.money.invoices.card_payment.settle_card_invoice import ChargeInvoices
from tonne.money.invoices.issuing.issue_invoices import IssueConsolidatedInvoices, IssueInvoices
from tonne.money.invoices.settle_invoice import settle_invoice
from tonne.money.invoices.store import find_invoice
from tonne.money.refunds.approve_refund import decline_refund
from tonne.money.refunds.errors import RefundOwed
from tonne.money.refunds.reduce_order import ReductionRequest, reduce_order
from tonne.money.refunds.request_refund import Cancellation, cancel_by_id
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, Mode
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.model import Billing, Fulfil, PaymentMethod
from tonne.selling.accounts.organisations.change_billing import BillingChange
from tonne.selling.catalogue.prices.pricing import Priced, PricedLine, reduce_priced
from tonne.selling.orders.errors import OrderFulfilled, ReductionInvalid, TransitionInvalid
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order

CLIENT = Actor(ActorKind.KEY, "key_of_the_client")
# What was paid for an order and did not go back; and what it costs without goodwill, which may be more than the rest.
KEPT = """
SELECT orders.status, coalesce(
           (SELECT sum(captured_minor) FROM charges WHERE charges.order_id = orders.id AND captured_minor IS NOT NULL),
           (SELECT billed.total_minor - coalesce(sum(part.total_minor), 0) FROM invoice_orders billed
            JOIN invoices ON invoices.id = billed.invoice_id AND invoices.status = 'paid'
            LEFT JOIN (credit_note_orders part JOIN credit_notes note
                       ON note.id = part.credit_note_id AND note.refund_id IS NULL) ON part.order_id = billed.order_id
            WHERE billed.order_id = orders.id GROUP BY billed.total_minor), 0)
       - (SELECT coalesce(sum(amount_minor), 0) FROM refunds
          WHERE refunds.order_id = orders.id AND state IN ('due', 'pending', 'succeeded')) AS kept,
       CASE WHEN orders.status = 'cancelled' OR orders.payment_state = 'unpaid' THEN 0
            ELSE greatest(0, total_cost_minor + billing_adjustment_minor + coalesce(tax_minor, 0)
                 - (SELECT coalesce(sum(amount_minor), 0) FROM refunds
                    WHERE refunds.order_id = orders.id AND purpose = 'goodwill'
                      AND state IN ('due', 'pending', 'succeeded'))) END AS cost
FROM orders WHERE orders.id = $1
"""


class WindowScene(DocumentsScene):
    """Paid orders of this account wait for a day."""

    async def open(self, hours: int = 24, **change: object) -> None:
        async with self.database.transaction() as tx:
            requested = AccountChange(fulfil_delay=str(hours), **change)  # type: ignore[arg-type] # fields of the change
            await change_account(tx, self.scope, requested, by=TESTER.at(self.clock()))

    async def reduce(
        self, order: Order, grams: int, *, actor: Actor = CLIENT, settings: Settings | None = None
    ) -> Order:
        async with self.database.transaction() as tx:
            request, by = ReductionRequest(grams, "Too much"), actor.at(self.clock())
            return await reduce_order(tx, order.scope, order.id, request, settings=settings or self.settings, by=by)

    async def cancel_by_client(self, order: Order) -> Order:
        async with self.database.transaction() as tx:
            requested = Cancellation(reason=None, with_refund=True)
            by = CLIENT.at(self.clock())
            return await cancel_by_id(tx, order.scope, order.id, requested, settings=self.settings, by=by)

    async def bill(self) -> None:
        await self.run_jobs(
            IssueInvoices(self.database, self.clock, self.settings),
            IssueConsolidatedInvoices(self.database, self.clock, self.settings),
        )

    async def settle(self, order: Order) -> None:
        async with self.database.transaction() as tx:
            invoice = await find_invoice(tx, order.scope, order.id)
            if invoice is not None and invoice.payment_method is PaymentMethod.INVOICE:
                await settle_invoice(tx, invoice, by=TESTER.at(self.clock()))

    async def reload(self, order: Order) -> Order:
        async with self.database.connection() as connection:
            [found] = await load_orders(connection, [order.key])
        return found

    async def work_on_bills(self) -> None:
        """Until nothing is due: invoices, charges and documents."""
        await self.bill()
        schedule = RetrySchedule(self.settings)
        charge = ChargeInvoices(self.database, self.clock, self.settings, self.gateways, Mode.TEST, schedule)
        await self.run_jobs(self.worker, charge)
        await self.issue()

    async def pay(self, orders: list[Order], days: int) -> None:
        await self.work_on_bills()
        self.clock.advance(days=days)
        await self.work_on_bills()
        for order in orders:
            with contextlib.suppress(TonneError):
                await self.settle(order)

    async def do_something(self, chance: random.Random, order: Order) -> None:
        match chance.choices(range(8), [3, 3, 3, 1, 2, 2, 3, 2])[0]:
            case 0 | 1 | 2:
                left = (await self.reload(order)).priced
                assert left is not None
                await self.reduce(order, chance.choice([1, left.quantity_grams - 1, left.quantity_grams // 2]))
            case 3:
                await self.cancel_by_client(order)
            case 4:
                await self.work_on_bills()
            case 5:
                await self.settle(order)
            case 6:
                await self.send()
                await self.issue()
            case 7 if chance.random() < 0.3:
                self.clock.advance(days=31)
            case 7:
                await self.refund(order, chance.randint(1, 300))

    async def check_kept(self, order: Order) -> None:
        """What was paid for the order, without what went back, is what it costs."""
        [row] = await self.fetch(KEPT, order.id)
        assert row["kept"] == row["cost"], (order.id, dict(row))

    async def check_money(self) -> None:
        await self.run_jobs(PostEntries(self.database, self.clock, self.settings))
        await self.check_invariants()


@pytest.fixture
def scene(services: Services, world: World) -> WindowScene:
    return WindowScene(services, world.ours_test)


async def test_a_part_goes_back_to_the_card_with_a_credit_note_of_exactly_that(scene: WindowScene) -> None:
    await scene.open()
    order = await scene.documented()
    before = await scene.shown(order)
    assert before["fulfil_after"] == "2026-11-02T09:00:00.000Z"
    reduced = await scene.reduce(order, 400_000)
    shown = await scene.shown(order)
    assert (shown["status"], shown["quantity"], shown["requested_quantity"]) == (
        "paid",
        "0.4",
        before["requested_quantity"],
    )
    assert [line["unit_price"] for line in shown["bundles"]] == [line["unit_price"] for line in before["bundles"]]
    assert (shown["refunded_amount"], shown["payment_state"]) == ("0.00", "paid")
    back = (order.amount_due_minor or 0) - (reduced.amount_due_minor or 0)
    assert await scene.states(order) == [("due", back)]
    [(invoice, total, _), (note, credited, corrects)] = await scene.documents()
    assert (credited, corrects, note[:2]) == (back, invoice, "CN")
    await scene.send()
    assert await scene.states(order) == [("succeeded", back)]
    assert (await scene.shown(order))["refunded_amount"] == "0.00"
    assert total == order.amount_due_minor
    await scene.balances()
    await scene.check_kept(order)


async def test_the_rest_is_fulfilled_after_the_wait(scene: WindowScene) -> None:
    await scene.open()
    order = await scene.documented()
    await scene.reduce(order, 400_000)
    await scene.send()
    await scene.allocate()
    assert await scene.status(order) == "paid"
    scene.clock.advance(hours=25)
    await scene.allocate()
    assert await scene.status(order) == "complete"
    assert await scene.fetchval("SELECT sum(quantity_grams) FROM shares WHERE order_id = $1", order.id) == 400_000
    assert "DEFERRED" not in await scene.balances()


async def test_a_reduction_before_the_document_needs_no_credit_note(scene: WindowScene) -> None:
    await scene.open()
    order = await scene.paid()
    reduced = await scene.reduce(order, 400_000)
    await scene.issue()
    await scene.send()
    [(_, total, corrects)] = await scene.documents()
    assert (total, corrects) == (reduced.amount_due_minor, None)
    await scene.balances()


async def test_only_below_the_quantity_and_only_in_the_window(scene: WindowScene) -> None:
    await scene.open()
    order = await scene.documented()
    for grams in (0, 1_105_697, 2_000_000):
        with pytest.raises(ReductionInvalid):
            await scene.reduce(order, grams)
    scene.clock.advance(hours=24)
    with pytest.raises(OrderFulfilled):
        await scene.reduce(order, 1)
    await scene.allocate()
    for attempt in (scene.reduce(order, 1), scene.cancel_by_client(order)):
        with pytest.raises(OrderFulfilled):
            await attempt
    unpaid = await scene.order()
    with pytest.raises(TransitionInvalid):
        await scene.reduce(unpaid, 1)
    await scene.check_money()


async def test_no_more_goes_back_than_is_left_of_the_payment(scene: WindowScene) -> None:
    await scene.open()
    order = await scene.documented()
    due = order.amount_due_minor or 0
    await scene.refund(order, due - 100)
    await scene.send()
    await scene.reduce(order, 10_000)
    await scene.send()
    assert await scene.states(order) == [("succeeded", due - 100), ("succeeded", 100)]
    assert (await scene.shown(order))["payment_state"] == "refunded"
    await scene.balances()


async def test_a_cancellation_credits_the_rest(scene: WindowScene) -> None:
    await scene.open()
    order = await scene.documented()
    await scene.reduce(order, 700_000)
    await scene.reduce(order, 300_000)
    cancelled = await scene.cancel_by_client(order)
    assert cancelled.cancellation_reason == "requested_by_client"
    await scene.send()
    assert sum(amount for _, amount in await scene.states(order)) == order.amount_due_minor
    assert {account for account, minor in (await scene.balances()).items() if minor} == set()


async def test_the_refund_of_a_reduction_cannot_be_declined(scene: WindowScene) -> None:
    await scene.open()
    order = await scene.documented()
    settings = msgspec.structs.replace(scene.settings, refund_approval_above="EUR 0.01")
    reduced = await scene.reduce(order, 400_000, actor=ADA, settings=settings)
    assert reduced.status == "paid"
    refund_id = await scene.fetchval("SELECT id FROM refunds")
    assert await scene.fetchval("SELECT state FROM refunds") == "approval"
    with pytest.raises(RefundOwed):
        async with scene.database.transaction() as tx:
            await decline_refund(tx, refund_id, "No", by=ADA.at(scene.clock()))


async def test_an_order_on_credit_is_billed_with_what_is_left(scene: WindowScene) -> None:
    credit = BillingChange(billing=Billing.MONTHLY, fulfil=Fulfil.ON_ORDER, credit_limit="1000.00")
    await scene.open(payment_method=PaymentMethod.INVOICE, billing=credit)
    orders = [await scene.place_order(scene.scope) for _ in range(3)]
    await scene.bill()
    assert await scene.status(orders[0]) == "paid"
    await scene.reduce(orders[0], 100_000)
    await scene.check_money()
    scene.clock.now = datetime(2026, 12, 1, 0, 15, tzinfo=UTC)
    await scene.bill()
    await scene.check_money()
    billed = await scene.fetchval("SELECT quantity_grams FROM invoice_orders WHERE order_id = $1", orders[0].id)
    assert billed == 100_000
    assert await scene.fetchval("SELECT count(*) FROM refunds") == 0


@pytest.mark.parametrize("first", ["payment", "reduction"])
async def test_a_payment_that_arrives_meanwhile(scene: WindowScene, first: str) -> None:
    credit = BillingChange(fulfil=Fulfil.ON_ORDER, credit_limit="1000.00")
    await scene.open(payment_method=PaymentMethod.INVOICE, billing=credit)
    order = await scene.place_order(scene.scope)
    await scene.work_on_bills()
    request = ReductionRequest(100_000)

    async def settle(tx: Connection) -> None:
        invoice = await find_invoice(tx, order.scope, order.id)
        assert invoice is not None
        await settle_invoice(tx, invoice, by=TESTER.at(scene.clock()))

    async def reduce(tx: Connection) -> None:
        await reduce_order(tx, order.scope, order.id, request, settings=scene.settings, by=CLIENT.at(scene.clock()))

    steps = [settle, reduce] if first == "payment" else [reduce, settle]
    async with scene.database.transaction() as tx:
        await steps[0](tx)
        second = asyncio.create_task(scene.database.commit(steps[1]))
        await scene.until_waiting_for_lock()
    await second
    reduced = await scene.reload(order)
    assert reduced.priced is not None
    assert (reduced.payment_state, reduced.priced.quantity_grams) == ("paid", 100_000)
    await scene.check_kept(order)
    await scene.check_money()


RATES = ("0", "19", "20")


@pytest.mark.parametrize("seed", range(4 * ROUNDS))
async def test_random_reductions_and_cancellations_keep_money_exact(
    services: Services, world: World, seed: int
) -> None:
    """Cards and invoices, alone and billed together, with and without tax, on credit or not, before and after bills.

    After each step the doctor finds nothing, and at last what was kept of each payment is what the order costs.
    """
    chance, clock = random.Random(seed), ManualClock()  # noqa: S311 - repeatable
    rate = chance.choice(RATES)
    taxed = {"tax_treatment": "standard", "tax_rate": rate, "seller_country": "DE", "seller_vat_id": "DE136695976"}
    settings = msgspec.structs.replace(services.settings, **(taxed if rate != "0" else {}))
    scene = WindowScene(type(services)(services.database, settings, clock), world.ours_test, clock)
    by_card, together = seed % 2 == 0, seed % 4 >= 2
    billing = Billing.MONTHLY if together else Billing.PER_ORDER
    if by_card:
        await scene.pay_by_card(GOOD)
    change = BillingChange(billing=billing)
    if not by_card and chance.random() < 0.5:
        change = BillingChange(billing=billing, fulfil=Fulfil.ON_ORDER, credit_limit="100000.00")
    method = PaymentMethod.CARD if by_card else PaymentMethod.INVOICE
    await scene.open(2160, payment_method=method, billing=change)
    orders = [await scene.place_order(scene.scope, mass_grams=chance.randint(20_000, 9_000_000)) for _ in range(4)]
    if was_paid := chance.random() < 0.8:
        await scene.pay(orders, days=31 if together else 0)
    for _ in range(24):
        with contextlib.suppress(TonneError):
            await scene.do_something(chance, chance.choice(orders))
        await scene.check_money()
    await scene.work_on_bills()
    await scene.send()
    await scene.allocate()
    for order in orders:
        await scene.check_kept(order)
    await scene.check_money()
    reductions = await scene.fetchval("SELECT count(*) FROM order_reductions")
    assert reductions or not was_paid


def test_no_part_of_a_reduced_price_is_larger_than_before() -> None:
    chance = random.Random(5)  # noqa: S311 - repeatable
    for _ in range(2_000 * ROUNDS):
        lines = tuple(
            PricedLine(str(i), "", None, chance.randint(1, 3_000_000), net, net + chance.randint(0, 900), 0, False)
            for i, net in enumerate(chance.randint(1, 9_000) for _ in range(chance.randint(1, 4)))
        )
        grams = sum(line.quantity_grams for line in lines)
        unit, fee = chance.choice([1, 10, 100]), Fraction(chance.randint(0, 1), 10)
        before = reduce_priced(Priced("EUR", fee, None, grams, 0, 0, 0, lines), grams, total_unit=unit)
        assert reduce_priced(before, grams, total_unit=unit) == before
        if grams > 1:
            after = reduce_priced(before, chance.randint(1, grams - 1), total_unit=unit)
            assert after.total_cost_minor <= before.total_cost_minor
            assert after.total_cost_minor % unit == 0
            assert sum(line.quantity_grams for line in after.lines) == after.quantity_grams
            kept = {line.bundle_id: line for line in before.lines}
            assert all(line.quantity_grams <= kept[line.bundle_id].quantity_grams for line in after.lines)
            assert sum(line.offset_cost_minor for line in after.lines) == after.offset_cost_minor
