"""Refunds of paid orders, wholly and in part, and cancelling with a refund."""

import msgspec
import pytest

from tests.money.cards.card_scene import total
from tests.money.refunds.refund_scene import ADA, RefundScene
from tests.support.people import approver
from tonne.money.refunds.approve_refund import approve_refund, retry_refund, settle_refund
from tonne.money.refunds.errors import NothingToRefund, RefundAmountInvalid, RefundExceedsPaid, RefundNotWaiting
from tonne.money.refunds.model import Refund
from tonne.money.refunds.request_refund import parse_amount
from tonne.selling.orders.errors import OrderFulfilled
from tonne.selling.users.approvals import Approver
from tonne.selling.users.errors import SecondPersonNeeded

PENDING_REFUND, FAILING_REFUND = "4000000000007726", "4000000000005126"


async def _approve(scene: RefundScene, refund: Refund, person: Approver) -> Refund:
    async with scene.database.transaction() as tx:
        return await approve_refund(tx, refund.id, approver=person, now=scene.clock())


async def test_a_partial_refund_changes_neither_status_nor_grams(scene: RefundScene) -> None:
    order = await scene.paid()
    before = await scene.shown(order)
    await scene.refund(order, 500)
    assert await scene.money(order) == ("paid", "paid", 0), "not before it has succeeded"
    await scene.send()
    assert await scene.money(order) == ("paid", "paid", 500)
    assert await scene.shown(order) == {**before, "refunded_amount": "5.00"}
    assert await scene.taken() == [total(order) - 500]
    moves = ["order.received", "order.placed", "order.paid"]
    assert await scene.event_types(order) == [*moves, "order.payment_updated"]
    await scene.allocate()
    assert (await scene.shown(order))["quantity"] == before["quantity"]
    assert await scene.breaches() == {}


async def test_all_is_refunded_in_parts_also_after_completion(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.allocate()
    before = await scene.shown(order)
    await scene.refund(order, 500)
    await scene.refund(order)
    await scene.send()
    assert await scene.money(order) == ("complete", "refunded", total(order))
    shown = await scene.shown(order)
    assert (shown["certificate"], shown["projects"]) == (before["certificate"], before["projects"])
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert await scene.taken() == [0]
    with pytest.raises(NothingToRefund):
        await scene.refund(order)
    assert await scene.breaches() == {}


async def test_no_more_is_refunded_than_was_paid(scene: RefundScene) -> None:
    order = await scene.paid()
    with pytest.raises(RefundExceedsPaid, match="can still be refunded"):
        await scene.refund(order, total(order) + 1)
    await scene.refund(order, 500)
    with pytest.raises(RefundExceedsPaid):
        await scene.refund(order, total(order) - 499)
    assert await scene.states(order) == [("due", 500)]


async def test_an_unpaid_order_has_nothing_to_refund(scene: RefundScene) -> None:
    order = await scene.order()
    with pytest.raises(NothingToRefund, match="Nothing was paid"):
        await scene.refund(order)


@pytest.mark.parametrize("text", ["0", "0.00", "5.001", "-1", "", "five", "1e3", "5,00"])
def test_an_amount_must_be_positive_and_in_the_units_of_the_currency(text: str) -> None:
    with pytest.raises(RefundAmountInvalid, match=r"for example 5\.00"):
        parse_amount(text, "EUR")


def test_amounts_are_read_in_minor_units() -> None:
    assert [parse_amount("5", "EUR"), parse_amount("5.1", "EUR"), parse_amount("5", "JPY")] == [500, 510, 5]


async def test_a_paid_order_is_cancelled_with_its_refund_in_one_transaction(scene: RefundScene) -> None:
    order = await scene.paid()
    cancelled = await scene.cancel_with_refund(order)
    assert (cancelled.status, cancelled.cancellation_reason) == ("cancelled", "requested_by_operator")
    assert await scene.states(order) == [("due", total(order))]
    assert (await scene.event_types(order))[-1] == "order.cancelled"
    await scene.allocate()
    assert await scene.money(order) == ("cancelled", "paid", 0), "nothing is allocated any more"
    await scene.send()
    assert await scene.money(order) == ("cancelled", "refunded", total(order))
    assert await scene.taken() == [0]
    assert [row["actor"] for row in await scene.audited("refund.requested")] == ["cli:ada@office"]
    assert len(await scene.audited("refund.succeeded")) == 1
    assert await scene.breaches() == {}


async def test_an_order_with_credits_can_only_be_refunded_as_goodwill(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.allocate()
    with pytest.raises(OrderFulfilled, match="Only a goodwill refund remains"):
        await scene.cancel_with_refund(order)


async def test_what_was_refunded_before_is_not_refunded_with_the_cancellation(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.refund(order, 500)
    await scene.cancel_with_refund(order)
    await scene.send()
    assert await scene.states(order) == [("succeeded", 500), ("succeeded", total(order) - 500)]
    assert await scene.money(order) == ("cancelled", "refunded", total(order))
    assert await scene.breaches() == {}


async def test_a_pending_refund_is_looked_at_until_it_succeeds(scene: RefundScene) -> None:
    order = await scene.paid(PENDING_REFUND)
    await scene.refund(order, 500)
    await scene.send()
    assert await scene.states(order) == [("pending", 500)]
    assert (await scene.money(order))[2] == 0
    scene.clock.advance(minutes=10)
    await scene.send()
    assert await scene.states(order) == [("succeeded", 500)]
    assert (await scene.money(order))[2] == 500
    assert len(set(scene.gateway.refunded)) == 1
    assert await scene.breaches() == {}


async def test_a_refund_that_was_accepted_and_fails_later_is_repeated(scene: RefundScene) -> None:
    order = await scene.paid(FAILING_REFUND)
    first = await scene.refund(order, 500)
    for hours in (1, 1, 6, 6):
        await scene.send()
        scene.clock.advance(hours=hours)
    await scene.send()
    assert await scene.states(order) == [("failed", 500), ("failed", 500), ("succeeded", 500)]
    assert (await scene.money(order))[2] == 500
    repeats = await scene.fetch("SELECT repeats FROM refunds ORDER BY attempt")
    assert [row["repeats"] for row in repeats][:2] == [None, first.id]
    assert len(await scene.audited("refund.failed")) == 2
    assert await scene.breaches() == {}


async def test_an_operator_repeats_a_failed_refund_at_once(scene: RefundScene) -> None:
    order = await scene.paid()
    first = await scene.refund(order, 500)
    scene.gateway.lost_refunds = 1
    await scene.send()
    async with scene.database.transaction() as tx:
        due = await retry_refund(tx, first.id, by=ADA.at(scene.clock()))
    assert due.repeats == first.id
    await scene.send()
    assert await scene.states(order) == [("failed", 500), ("succeeded", 500)]
    async with scene.database.transaction() as tx:
        with pytest.raises(RefundNotWaiting):
            await retry_refund(tx, first.id, by=ADA.at(scene.clock()))


async def test_a_refund_that_keeps_failing_is_settled_by_hand(scene: RefundScene) -> None:
    order = await scene.paid()
    first = await scene.refund(order, 500)
    async with scene.database.transaction() as tx:
        with pytest.raises(RefundNotWaiting, match="made automatically"):
            await settle_refund(tx, first.id, "Paid in cash", by=ADA.at(scene.clock()))
    scene.gateway.lost_refunds = 1
    await scene.send()
    [second] = await scene.fetch("SELECT id FROM refunds WHERE state = 'due'")
    async with scene.database.transaction() as tx:
        await settle_refund(tx, second["id"], "Paid in cash", by=ADA.at(scene.clock()))
    assert await scene.money(order) == ("paid", "paid", 500)
    scene.clock.advance(days=1)
    await scene.send()
    assert len(scene.gateway.refunded) == 1, "it is not made any more"


async def test_a_second_person_approves_a_high_refund(scene: RefundScene) -> None:
    order = await scene.paid()
    careful = msgspec.structs.replace(scene.settings, refund_approval_above="EUR 4.99, JPY 80000")
    small = await scene.refund(order, 499, settings=careful)
    ada, ben = await approver(scene.database, "ada"), await approver(scene.database, "ben")
    high = await scene.refund(order, 500, settings=careful, actor=ada.actor)
    assert (small.state, high.state) == ("due", "approval")
    await scene.send()
    assert (await scene.money(order))[2] == 499
    with pytest.raises(SecondPersonNeeded):
        await _approve(scene, high, ada)
    await _approve(scene, high, ben)
    with pytest.raises(RefundNotWaiting):
        await _approve(scene, high, ben)
    await scene.send()
    assert (await scene.money(order))[2] == 999
    assert [row["actor"] for row in await scene.audited("refund.approved")] == [str(ben.actor)]
    assert await scene.breaches() == {}


async def test_an_order_is_cancelled_at_once_and_only_its_refund_waits_for_approval(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.cancel_with_refund(order, msgspec.structs.replace(scene.settings, refund_approval_above="1"))
    await scene.send()
    assert await scene.states(order) == [("approval", total(order))]
    assert (await scene.money(order))[0] == "cancelled"
    assert await scene.breaches() == {}
