"""Concurrency: workers that charge, clients that cancel."""

import asyncio
import json

import pytest

from tests.money.cards.card_scene import GOOD, CardScene, total
from tonne.money.cards.gateways.card import ChargeRequest, ChargeResult
from tonne.selling.orders.errors import TransitionInvalid

ORDERS = 200
RACES = 12
COUNT_WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
"""


async def test_two_workers_charge_two_hundred_orders_once_each(
    scene: CardScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonne.money.cards.charge_cards.BATCH", 100)
    await scene.pay_by_card(GOOD)
    orders = [await scene.order_as_the_account_says() for _ in range(ORDERS)]
    # The first requests of the workers wait for each other: both have claimed orders before either settles.
    barrier = asyncio.Barrier(2)

    async def meet(request: ChargeRequest) -> ChargeResult:
        async with asyncio.timeout(20):
            await barrier.wait()
        return await scene.gateway.inner.charge(request)

    async def work() -> int:
        worker = scene.another_worker()
        batch = await worker.claim()
        scene.gateway.faults.append(meet)
        await worker.settle(await worker.call_gateways(batch), batch.free)
        count = len(batch.attempts)
        while batch := await worker.claim():
            await worker.settle(await worker.call_gateways(batch), batch.free)
            count += len(batch.attempts)
        return count

    counts = await asyncio.gather(work(), work())
    assert sum(counts) == ORDERS
    assert min(counts) > 0
    assert {await scene.status(order) for order in orders} == {"paid"}
    assert len(scene.gateway.charged) == len(set(scene.gateway.charged)) == ORDERS
    taken = await scene.taken()
    assert (len(taken), sum(taken)) == (ORDERS, total(orders))
    assert await scene.breaches() == {}


async def test_an_order_cancelled_while_it_is_charged_is_refunded(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    answers = await scene.worker.call_gateways(batch)
    await scene.cancel(order)
    await scene.worker.settle(answers)
    assert await scene.status(order) == "cancelled"
    assert await scene.outcomes(order) == [("refund_due", "captured")]
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}
    assert await scene.refunds.run_once()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert await scene.taken() == [0]
    assert not await scene.refunds.run_once()
    assert await scene.event_types(order) == ["order.received", "order.placed", "order.cancelled"]
    assert await scene.breaches() == {}


async def test_security_7_a_refund_is_in_the_audit_log(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    answers = await scene.worker.call_gateways(await scene.worker.claim())
    await scene.cancel(order)
    await scene.worker.settle(answers)
    assert await scene.refunds.run_once()
    [entry] = await scene.fetch(
        "SELECT actor, organisation_id, before, after, details FROM audit_log WHERE action = 'refund.succeeded'"
    )
    assert (entry["actor"], entry["organisation_id"]) == ("system:make_refunds", order.scope.organisation_id)
    assert (json.loads(entry["before"]), json.loads(entry["after"])) == (
        {"state": "due"},
        {"state": "succeeded"},
    )
    assert json.loads(entry["details"])["order_id"] == order.id


async def test_an_order_cancelled_before_its_charge_is_sent_is_refunded(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    await scene.cancel(order)
    await scene.worker.settle(await scene.worker.call_gateways(batch))
    await scene.refunds.run_once()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert await scene.taken() == [0]


async def test_an_order_cancelled_before_a_crash_is_refunded_later(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    await scene.worker.call_gateways(await scene.worker.claim())
    await scene.cancel(order)
    scene.clock.advance(minutes=2)
    assert await scene.work()
    assert await scene.outcomes(order) == [("refund_due", "captured")]
    await scene.refunds.run_once()
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}


async def test_a_lost_charge_of_a_cancelled_order_is_not_sent_again(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    scene.gateway.faults = [scene.gateway.lose_request]
    await scene.work()
    await scene.cancel(order)
    for _ in range(48):
        scene.clock.advance(minutes=30)
        await scene.work()
        assert await scene.outcomes(order) == [("pending", "not_found")], "a late one would still be refunded"
    scene.clock.advance(hours=1)
    await scene.work()
    assert await scene.outcomes(order) == [("failed", "not_found")]
    assert len(scene.gateway.charged) == 1
    assert not await scene.work()
    assert await scene.status(order) == "cancelled"
    assert await scene.breaches() == {}


async def test_a_decline_after_the_cancellation_changes_nothing(scene: CardScene) -> None:
    order = await scene.order("4000000000009995")
    batch = await scene.worker.claim()
    answers = await scene.worker.call_gateways(batch)
    await scene.cancel(order)
    await scene.worker.settle(answers)
    assert await scene.status(order) == "cancelled"
    assert await scene.outcomes(order) == [("failed", "declined")]
    scene.clock.advance(days=30)
    assert not await scene.work()


async def test_if_a_cancellation_races_a_charge_exactly_one_wins(scene: CardScene) -> None:
    """Both wait for the row of the order, which a third transaction holds and then releases."""
    won = set()
    for race in range(RACES):
        order = await scene.order(GOOD)
        answers = await scene.worker.call_gateways(await scene.worker.claim())
        steps = [scene.worker.settle(answers), scene.cancel(order)]
        async with scene.database.transaction() as tx:
            await tx.execute("SELECT true FROM orders WHERE id = $1 FOR UPDATE", order.id)
            tasks = []
            # The first to wait gets the lock first: the test runs both orders.
            for step in steps if race % 2 else steps[::-1]:
                tasks.append(asyncio.create_task(step))
                await _until_waiting(scene, len(tasks))
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        status = await scene.status(order)
        won.add(status)
        if status == "paid":
            assert [type(failure) for failure in failures] == [TransitionInvalid]
            assert await scene.outcomes(order) == [("captured", "captured")]
        else:
            assert (status, failures) == ("cancelled", [])
            assert await scene.outcomes(order) == [("refund_due", "captured")]
    assert won == {"paid", "cancelled"}
    while await scene.refunds.run_once():
        pass
    assert await scene.breaches() == {}


async def _until_waiting(scene: CardScene, count: int) -> None:
    """Wait until that many transactions wait for a lock."""
    async with scene.database.connection() as connection, asyncio.timeout(20):
        while await connection.fetchval(COUNT_WAITING) < count:
            pass


async def test_the_database_rejects_a_second_open_charge(scene: CardScene) -> None:
    await scene.order(GOOD)
    await scene.work()
    with pytest.raises(Exception, match="charges_one_per_order"):
        await scene.execute(
            """
            INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, source, customer,
                                 method, amount_minor, currency, status, created_at)
            SELECT account_id, 'chg_second', order_id, organisation_id, mode, 2, gateway, source, customer, method,
                   amount_minor, currency, 'pending', created_at FROM charges
            """,
        )


async def test_a_charge_sent_by_a_delayed_worker_after_it_was_given_up_is_refunded(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    await scene.cancel(order)
    other = scene.another_worker()
    for _ in range(48):
        scene.clock.advance(hours=1)
        await other.run_once()
    assert await scene.outcomes(order) == [("failed", "not_found")]
    await scene.worker.settle(await scene.worker.call_gateways(batch))
    assert await scene.outcomes(order) == [("refund_due", "captured")]
    assert await scene.refunds.run_once()
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}
