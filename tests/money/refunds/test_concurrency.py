"""Refunds, cancellations and allocation at the same time: never more goes back than was paid."""

import asyncio
from typing import Any

import pytest

from tests.money.cards.card_scene import total
from tests.money.refunds.refund_scene import RefundScene
from tonne.money.cards.captured_store import find_captured_any_account
from tonne.money.cards.gateways.card import DisputeState, RecordedPayment, RecordedRefund, RefundOutcome
from tonne.money.refunds.disputes.check_payments import record_payment
from tonne.platform.values.errors import TonneError
from tonne.supply.retirements.allocate_orders import AllocateOrders


async def _together(*work: Any) -> list[Any]:
    """Start all at one barrier."""
    barrier = asyncio.Barrier(len(work))

    async def start(each: Any) -> Any:
        await barrier.wait()
        return await each

    return await asyncio.gather(*(start(each) for each in work), return_exceptions=True)


@pytest.mark.parametrize("parts", [2, 3, 8])
async def test_refunds_at_the_same_time_never_exceed_what_was_paid(scene: RefundScene, parts: int) -> None:
    order = await scene.paid()
    amount = total(order) * 2 // 3
    results = await _together(*(scene.refund(order, amount) for _ in range(parts)))
    assert sum(not isinstance(each, Exception) for each in results) == 1
    assert all(isinstance(each, TonneError) for each in results if isinstance(each, Exception))
    await _together(scene.refunds.make.run_once(), scene.refunds.make.run_once())
    await scene.send()
    assert (await scene.money(order))[2] == amount
    assert await scene.breaches() == {}


async def test_a_cancellation_against_allocation_has_one_winner(scene: RefundScene) -> None:
    outcomes = set()
    for _ in range(6):
        order = await scene.paid()
        allocate = AllocateOrders(scene.database, scene.clock, scene.settings)
        await _together(scene.cancel_with_refund(order), allocate.run_once())
        await scene.allocate()
        await scene.send()
        status, state, refunded = await scene.money(order)
        outcomes.add(status)
        if status == "cancelled":
            assert (state, refunded) == ("refunded", total(order))
            assert await scene.fetchval("SELECT count(*) FROM shares WHERE order_id = $1", order.id) == 0
        else:
            assert (status, state, refunded) == ("complete", "paid", 0)
            assert await scene.states(order) == []
    assert outcomes <= {"cancelled", "complete"}
    assert await scene.breaches() == {}


async def test_a_refund_at_the_gateway_races_ours(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.allocate()
    await scene.refund(order)
    await _together(scene.refund_at_gateway(order, total(order)), scene.refunds.make.run_once())
    for _ in range(3):
        scene.clock.advance(minutes=15)
        await scene.refunds.polls.run_once()
        await scene.send()
    assert (await scene.money(order))[1:] == ("refunded", total(order))
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}


async def test_a_dispute_races_a_refund(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.allocate()
    await scene.refund(order, 500)
    await _together(scene.dispute(order, DisputeState.LOST), scene.refunds.make.run_once())
    for _ in range(3):
        scene.clock.advance(hours=2)
        await scene.refunds.polls.run_once()
        await scene.send()
    assert await scene.breaches() == {}


async def test_a_refund_that_is_cancelled_while_the_gateway_makes_it_counts(scene: RefundScene) -> None:
    """A refund at the gateway leaves too little for both of ours, but enough for the one that is on its way."""
    order = await scene.paid()
    await scene.allocate()
    await scene.refund(order, total(order) * 6 // 10)
    scene.clock.advance(seconds=1)
    sent = await scene.refund(order, total(order) * 3 // 10)
    [charge] = await scene.charges(order)
    await scene.refund_at_gateway(order, total(order) // 2)
    seen = await scene.gateway.inner.read_payment(charge["reference"])
    due = [each for each in await scene.refunds.make.claim() if each.refund.id == sent.id]
    results = await scene.refunds.make.call_gateways(due)
    async with scene.database.transaction() as tx:
        found = await find_captured_any_account(tx, charge["id"])
        assert found is not None
        await record_payment(tx, found, seen, held_until=None, now=scene.clock())
    assert [state for state, _ in await scene.states(order)] == ["cancelled", "cancelled", "succeeded"]
    await scene.refunds.make.settle(results)
    assert [state for state, _ in await scene.states(order)] == ["cancelled", "succeeded", "succeeded"]
    assert (await scene.money(order))[2] == total(order) // 2 + total(order) * 3 // 10
    assert await scene.breaches() == {}


async def test_a_record_that_was_read_earlier_does_not_undo_a_refund_that_has_succeeded(scene: RefundScene) -> None:
    """A worker reads the payment while a refund is pending, and stores it after another worker saw it succeed."""
    order = await scene.paid("4000000000007726")
    refund = await scene.refund(order)
    await scene.send()
    [charge] = await scene.charges(order)
    async with scene.database.connection() as connection:
        found = await find_captured_any_account(connection, charge["id"])
    assert found is not None
    earlier = RecordedPayment(
        reference=charge["reference"],
        captured_minor=total(order),
        currency=charge["currency"],
        mode=scene.scope.mode,
        refunds=(
            RecordedRefund(
                reference=f"sim_{refund.id}",
                refund_id=refund.id,
                amount_minor=total(order),
                kind=RefundOutcome.PENDING,
            ),
        ),
    )
    scene.clock.advance(minutes=10)
    await scene.send()
    assert await scene.states(order) == [("succeeded", total(order))]
    async with scene.database.transaction() as tx:
        await record_payment(tx, found, earlier, held_until=None, now=scene.clock())
    assert await scene.states(order) == [("succeeded", total(order))]
    assert await scene.money(order) == ("paid", "refunded", total(order))
    assert await scene.breaches() == {}
