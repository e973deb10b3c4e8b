"""Payments that payers dispute at their banks, and refunds that begin at the gateway."""

import pytest

from tests.money.cards.card_scene import ANSWER_LOST, total
from tests.money.refunds.refund_scene import RefundScene
from tonne.money.cards.captured_store import find_captured_any_account
from tonne.money.cards.gateways.card import DisputeState, RecordedDispute
from tonne.money.refunds.disputes.check_payments import record_payment
from tonne.money.refunds.errors import NothingToDispute, NothingToRefund
from tonne.platform.values.context import replace

OPEN = "SELECT has_open_dispute FROM orders"


async def test_a_disputed_order_is_held_until_the_dispute_is_won(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.dispute(order, DisputeState.OPENED)
    assert await scene.money(order) == ("paid", "disputed", 0)
    assert await scene.fetchval(OPEN) is True
    await scene.allocate()
    scene.clock.advance(days=1)
    await scene.allocate()
    assert (await scene.money(order))[0] == "paid", "held"
    with pytest.raises(NothingToRefund, match="disputed this payment"):
        await scene.refund(order, 500)
    await scene.dispute(order, DisputeState.WON)
    assert await scene.money(order) == ("paid", "paid", 0)
    assert await scene.fetchval(OPEN) is False
    await scene.allocate()
    assert await scene.money(order) == ("complete", "paid", 0)
    assert [len(await scene.audited(f"dispute.{state}")) for state in ("opened", "won", "lost")] == [1, 1, 0]
    assert await scene.breaches() == {}


async def test_a_dispute_lost_before_allocation_cancels_the_order(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.dispute(order, DisputeState.OPENED)
    await scene.dispute(order, DisputeState.LOST)
    assert await scene.money(order) == ("cancelled", "disputed", 0)
    assert (await scene.shown(order))["cancellation_reason"] == "dispute_lost"
    assert (await scene.event_types(order))[-1] == "order.cancelled"
    await scene.send()
    assert await scene.states(order) == [], "the payer has the money already"
    assert await scene.breaches() == {}


async def test_a_dispute_lost_after_completion_is_on_record(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.allocate()
    await scene.dispute(order, DisputeState.LOST)
    assert await scene.money(order) == ("complete", "disputed", 0)
    assert await scene.fetchval(OPEN) is False, "credits that are left are retired"
    [row] = await scene.fetch("SELECT state, amount_minor, withdrawn_minor, closed_at FROM disputes")
    assert tuple(row) == ("lost", total(order), total(order), scene.clock.now)
    with pytest.raises(NothingToDispute):
        await scene.dispute(order, DisputeState.WON)
    assert await scene.breaches() == {}


async def test_a_dispute_of_a_payment_that_is_refunded_anyway_holds_nothing(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.execute("UPDATE charges SET is_surplus = true, status = 'refund_due'")
    await scene.dispute_at_gateway(order, DisputeState.OPENED)
    await scene.refunds.polls.run_once()
    await scene.send()
    assert await scene.fetchval("SELECT state FROM disputes") == "opened"
    assert await scene.fetchval(OPEN) is False


async def test_a_dispute_takes_what_was_not_refunded(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.refund(order, 500)
    await scene.send()
    await scene.dispute(order, DisputeState.LOST)
    assert await scene.money(order) == ("cancelled", "disputed", 500)
    assert await scene.fetchval("SELECT withdrawn_minor FROM disputes") == total(order) - 500
    await scene.send()
    assert await scene.states(order) == [("succeeded", 500)]
    assert await scene.breaches() == {}


async def test_a_refund_that_the_dispute_overtakes_is_cancelled(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.allocate()
    await scene.refund(order, 500)
    await scene.dispute(order, DisputeState.OPENED)
    await scene.send()
    assert await scene.states(order) == [("cancelled", 500)]
    await scene.dispute(order, DisputeState.WON)
    await scene.refund(order, 500)
    await scene.send()
    assert await scene.money(order) == ("complete", "paid", 500)
    assert await scene.breaches() == {}


async def test_a_won_dispute_of_a_cancelled_order_gives_the_money_back(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.dispute(order, DisputeState.OPENED)
    await scene.cancel_with_refund(order)
    assert await scene.states(order) == []
    await scene.dispute(order, DisputeState.WON)
    await scene.send()
    assert await scene.states(order) == [("succeeded", total(order))]
    assert await scene.money(order) == ("cancelled", "refunded", total(order))
    assert await scene.breaches() == {}


async def test_polling_alone_finds_disputes_and_their_end(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.dispute_at_gateway(order, DisputeState.OPENED)
    assert await scene.refunds.polls.run_once()
    assert not await scene.refunds.polls.run_once(), "not at once"
    await scene.send()
    assert await scene.money(order) == ("paid", "disputed", 0)
    await scene.dispute_at_gateway(order, DisputeState.LOST)
    scene.clock.advance(minutes=15)
    assert await scene.refunds.polls.run_once()
    await scene.send()
    assert await scene.money(order) == ("cancelled", "disputed", 0)
    assert await scene.breaches() == {}


async def test_polling_alone_finds_a_partial_refund(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.refund_at_gateway(order, 500)
    await scene.refunds.polls.run_once()
    await scene.send()
    assert await scene.money(order) == ("paid", "paid", 500)
    [row] = await scene.fetch("SELECT purpose, state, reference FROM refunds")
    assert tuple(row) == ("gateway", "succeeded", "sim_re_dashboard")
    await scene.allocate()
    assert (await scene.money(order))[0] == "complete"
    assert await scene.breaches() == {}


@pytest.mark.parametrize("allocated", [False, True])
async def test_a_full_refund_at_the_gateway_cancels_only_before_allocation(scene: RefundScene, allocated: bool) -> None:
    order = await scene.paid()
    if allocated:
        await scene.allocate()
    await scene.refund_at_gateway(order, total(order))
    await scene.refunds.polls.run_once()
    await scene.send()
    assert await scene.money(order) == ("complete" if allocated else "cancelled", "refunded", total(order))
    shown = await scene.shown(order)
    assert shown["cancellation_reason"] == (None if allocated else "refunded_at_gateway")
    assert await scene.states(order) == [("succeeded", total(order))], "nothing is refunded twice"
    assert await scene.breaches() == {}


async def test_our_refunds_are_not_counted_again_by_polling(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.refund(order, 500)
    await scene.send()
    for _ in range(3):
        await scene.refunds.polls.run_once()
        await scene.send()
        scene.clock.advance(hours=1)
    assert await scene.states(order) == [("succeeded", 500)]


async def test_money_6_a_charge_whose_answer_was_lost_and_that_was_refunded_does_not_pay(scene: RefundScene) -> None:
    order = await scene.order(ANSWER_LOST)
    await scene.work()
    assert await scene.outcomes(order) == [("pending", "unknown")]
    await scene.gateway.inner.refund("re_dashboard", f"sim_{scene.gateway.charged[0]}", total(order), "EUR")
    scene.clock.advance(minutes=5)
    await scene.work()
    assert (await scene.money(order))[:2] == ("cancelled", "unpaid")
    assert (await scene.shown(order))["cancellation_reason"] == "refunded_at_gateway"
    await scene.send()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}


async def test_a_gateway_that_is_down_is_asked_again(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.refund_at_gateway(order, 500)
    scene.gateway.is_down = True
    assert await scene.refunds.polls.run_once()
    scene.gateway.is_down = False
    scene.clock.advance(minutes=15)
    assert await scene.refunds.polls.run_once()
    scene.gateway.is_down = True
    await scene.send()
    assert await scene.states(order) == []
    scene.gateway.is_down = False
    scene.clock.advance(minutes=15)
    await scene.send()
    assert await scene.states(order) == [("succeeded", 500)]


@pytest.mark.parametrize("disputed", [0, 1], ids=["the whole payment", "more than the payment"])
async def test_a_bank_may_take_back_what_was_refunded_before(scene: RefundScene, disputed: int) -> None:
    """The amount of a dispute may differ from what is left, for example because of exchange rates."""
    order = await scene.paid()
    await scene.allocate()
    await scene.refund(order, 500)
    await scene.send()
    await scene.refund(order, 100)
    [charge] = await scene.charges(order)
    seen = await scene.gateway.inner.read_payment(charge["reference"])
    dispute = RecordedDispute(
        reference="dp_1",
        state=DisputeState.OPENED,
        amount_minor=total(order) + disputed,
        withdrawn_minor=total(order) + disputed,
        reason="fraudulent",
        opened_at=scene.clock(),
    )
    async with scene.database.transaction() as tx:
        found = await find_captured_any_account(tx, charge["id"])
        assert found is not None
        await record_payment(tx, found, replace(seen, disputes=(dispute,)), held_until=None, now=scene.clock())
    assert await scene.states(order) == [("succeeded", 500), ("cancelled", 100)], "nothing more is sent"
    assert await scene.money(order) == ("complete", "disputed", 500)
    assert await scene.breaches() == {}
