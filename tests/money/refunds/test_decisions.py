"""What operators decide about refunds: to decline one, or to settle one by hand only if the gateway cannot make it."""

import asyncio

import msgspec
import pytest

from tests.money.cards.card_scene import total
from tests.money.refunds.refund_scene import ADA, BEN, RefundScene
from tests.support.people import approver
from tonne.money.cards.gateways.card import RefundOutcome
from tonne.money.refunds.approve_refund import approve_refund, decline_refund, settle_refund
from tonne.money.refunds.errors import RefundNotSettleable, RefundNotWaiting, RefundOwed
from tonne.money.refunds.model import Refund
from tonne.platform.values.context import Actor, ActorKind, new_id, replace
from tonne.selling.orders.model import Order
from tonne.selling.users.approvals import Approver

USER = Actor(ActorKind.USER, new_id("usr"))


async def _decline(scene: RefundScene, refund: Refund, actor: Actor = BEN) -> Refund:
    async with scene.database.transaction() as tx:
        return await decline_refund(tx, refund.id, "No reason to refund", by=actor.at(scene.clock()))


async def _settle(scene: RefundScene, refund_id: str) -> None:
    async with scene.database.transaction() as tx:
        await settle_refund(tx, refund_id, "Paid in cash", by=ADA.at(scene.clock()))


async def _awaiting(scene: RefundScene, order: Order, amount: int, actor: Actor = ADA) -> Refund:
    careful = msgspec.structs.replace(scene.settings, refund_approval_above="1")
    refund = await scene.refund(order, amount, actor=actor, settings=careful)
    assert refund.state == "approval"
    return refund


async def _second_attempt(scene: RefundScene, order: Order) -> str:
    """The id of the attempt that repeats a failed refund, and was not sent yet."""
    await scene.refund(order, 500)
    scene.gateway.lost_refunds = 1
    await scene.send()
    return str(await scene.fetchval("SELECT id FROM refunds WHERE state = 'due'"))


@pytest.mark.parametrize("actor", [BEN, ADA], ids=["second person", "the person who requested it"])
async def test_a_declined_refund_is_not_made_and_its_amount_is_free_again(scene: RefundScene, actor: Actor) -> None:
    order = await scene.paid()
    refund = await _awaiting(scene, order, total(order))
    declined = await _decline(scene, refund, actor)
    assert (declined.state, declined.message) == ("cancelled", "Declined: No reason to refund")
    await scene.send()
    assert await scene.money(order) == ("paid", "paid", 0)
    assert scene.gateway.refunded == []
    assert [row["actor"] for row in await scene.audited("refund.declined")] == [str(actor)]
    await scene.refund(order)
    await scene.send()
    assert await scene.money(order) == ("paid", "refunded", total(order))
    assert await scene.breaches() == {}


async def test_only_a_refund_that_waits_for_approval_is_declined(scene: RefundScene) -> None:
    order = await scene.paid()
    due = await scene.refund(order, 500)
    with pytest.raises(RefundNotWaiting, match="it is due"):
        await _decline(scene, due)
    waiting = await _awaiting(scene, order, 300, USER)
    ben = await approver(scene.database, "ben")
    async with scene.database.transaction() as tx:
        await approve_refund(tx, waiting.id, approver=ben, now=scene.clock())
    with pytest.raises(RefundNotWaiting):
        await _decline(scene, waiting)


async def test_approvals_at_the_same_moment_count_once_for_each_person(scene: RefundScene) -> None:
    """What an unbound command line requested needs two people, and two sessions of one person are not two."""
    order = await scene.paid()
    refund = await _awaiting(scene, order, 500)
    cid, dan = await approver(scene.database, "cid"), await approver(scene.database, "dan")

    async def at_once(*people: Approver) -> list[str]:
        barrier = asyncio.Barrier(len(people))

        async def decide(person: Approver) -> str:
            async with scene.database.transaction() as tx:
                await barrier.wait()
                return str((await approve_refund(tx, refund.id, approver=person, now=scene.clock())).state)

        found = await asyncio.gather(*(decide(each) for each in people), return_exceptions=True)
        return sorted(each if isinstance(each, str) else type(each).__name__ for each in found)

    same = replace(cid, session_id=f"{cid.session_id}_other")
    assert await at_once(cid, same, same) == ["SecondPersonNeeded", "SecondPersonNeeded", "approval"]
    assert await at_once(dan, dan) == ["RefundNotWaiting", "due"]
    assert await scene.fetchval("SELECT count(DISTINCT approved_by) FROM approvals") == 2
    await scene.send()
    assert await scene.states(order) == [("succeeded", 500)]

    refund = await _awaiting(scene, order, 300)
    assert await at_once(cid, dan) == ["approval", "due"], "exactly one of them is the second"
    assert await scene.breaches() == {}


async def test_the_refund_of_a_cancelled_order_is_owed_and_not_declined(scene: RefundScene) -> None:
    order = await scene.paid()
    earlier = await _awaiting(scene, order, 300)
    await scene.cancel_with_refund(order, msgspec.structs.replace(scene.settings, refund_approval_above="1"))
    refunds = await scene.fetch("SELECT id FROM refunds WHERE order_id = $1 ORDER BY id", order.id)
    assert refunds[0]["id"] == earlier.id
    for row in refunds:
        async with scene.database.transaction() as tx:
            with pytest.raises(RefundOwed, match="is cancelled, so its payment goes back"):
                await decline_refund(tx, row["id"], "No", by=BEN.at(scene.clock()))
    assert {state for state, _ in await scene.states(order)} == {"approval"}
    assert await scene.breaches() == {}


async def test_an_attempt_at_the_gateway_cannot_be_settled_by_hand(scene: RefundScene) -> None:
    order = await scene.paid()
    second = await _second_attempt(scene, order)
    scene.clock.advance(hours=1)
    due = await scene.refunds.make.claim()
    assert [each.refund.id for each in due] == [second]
    with pytest.raises(RefundNotSettleable, match="may still be at the gateway"):
        await _settle(scene, second)
    await scene.refunds.make.settle(await scene.refunds.make.call_gateways(due))
    assert await scene.money(order) == ("paid", "paid", 500)
    assert await scene.taken() == [total(order) - 500], "once"


async def test_an_attempt_without_an_answer_cannot_be_settled_until_the_gateway_has_rejected_it(
    scene: RefundScene,
) -> None:
    order = await scene.paid()
    second = await _second_attempt(scene, order)
    scene.clock.advance(hours=1)
    scene.gateway.refund_faults = [RefundOutcome.UNKNOWN]
    await scene.refunds.make.run_once()
    with pytest.raises(RefundNotSettleable, match="tonne refund retry"):
        await _settle(scene, second)
    # A gateway that was not reached says nothing about the first request.
    scene.clock.advance(hours=1)
    scene.gateway.refund_faults = [RefundOutcome.UNAVAILABLE]
    await scene.refunds.make.run_once()
    with pytest.raises(RefundNotSettleable):
        await _settle(scene, second)
    scene.clock.advance(hours=1)
    await scene.refunds.make.run_once()
    assert await scene.money(order) == ("paid", "paid", 500)
    with pytest.raises(RefundNotWaiting):
        await _settle(scene, second)
    assert await scene.taken() == [total(order) - 500]


async def test_an_attempt_that_never_reached_the_gateway_is_settled_by_hand(scene: RefundScene) -> None:
    order = await scene.paid()
    second = await _second_attempt(scene, order)
    scene.clock.advance(hours=1)
    scene.gateway.refund_faults = [RefundOutcome.UNAVAILABLE]
    await scene.refunds.make.run_once()
    await _settle(scene, second)
    scene.clock.advance(days=1)
    await scene.send()
    assert await scene.money(order) == ("paid", "paid", 500)
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_settling_races_the_worker(scene: RefundScene) -> None:
    """Either the worker sends it or the operator settles it, never both."""
    for _ in range(6):
        order = await scene.paid()
        second = await _second_attempt(scene, order)
        sent_before = len(scene.gateway.refunded)
        scene.clock.advance(hours=1)
        barrier = asyncio.Barrier(2)

        async def settle(refund_id: str, barrier: asyncio.Barrier) -> bool:
            await barrier.wait()
            try:
                await _settle(scene, refund_id)
            except (RefundNotSettleable, RefundNotWaiting):
                return False
            return True

        async def work(barrier: asyncio.Barrier) -> None:
            await barrier.wait()
            await scene.refunds.make.run_once()

        by_hand, _ = await asyncio.gather(settle(second, barrier), work(barrier))
        await scene.send()
        assert (len(scene.gateway.refunded) == sent_before) is by_hand
        assert (await scene.money(order))[2] == 500
    assert await scene.breaches() == {}
