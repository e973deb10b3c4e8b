"""Refunds of payments that no order needs are retried until they succeed, and made once."""

import pytest

from tests.money.cards.card_scene import GOOD, CardScene, total
from tonne.money.cards.gateways.card import RefundOutcome
from tonne.selling.orders.model import Order


async def _refund_due(scene: CardScene) -> Order:
    order = await scene.order(GOOD)
    answers = await scene.worker.call_gateways(await scene.worker.claim())
    await scene.cancel(order)
    await scene.worker.settle(answers)
    assert await scene.outcomes(order) == [("refund_due", "captured")]
    return order


async def _refunds(scene: CardScene, order: Order) -> list[tuple[str, int]]:
    rows = await scene.fetch("SELECT state, attempt FROM refunds WHERE order_id = $1 ORDER BY attempt", order.id)
    return [(row["state"], row["attempt"]) for row in rows]


@pytest.mark.parametrize("fault", [RefundOutcome.UNAVAILABLE, RefundOutcome.UNKNOWN])
async def test_an_unclear_refund_is_repeated_under_its_id(scene: CardScene, fault: RefundOutcome) -> None:
    order = await _refund_due(scene)
    scene.gateway.refund_faults = [fault] * 3
    for _ in range(3):
        assert await scene.refunds.run_once()
        assert not await scene.refunds.run_once(), "not at once"
        assert await scene.outcomes(order) == [("refund_due", "captured")]
        scene.clock.advance(hours=1)
    assert await scene.refunds.run_once()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert len(scene.gateway.refunded) == 4
    assert len(set(scene.gateway.refunded)) == 1
    assert await scene.taken() == [0]
    [refund] = await scene.fetch("SELECT state, settled_at, next_attempt_at FROM refunds")
    assert tuple(refund) == ("succeeded", scene.clock.now, None)
    assert await scene.breaches() == {}


async def test_a_failed_refund_is_repeated_under_a_new_id_later_and_later(scene: CardScene) -> None:
    order = await _refund_due(scene)
    scene.gateway.lost_refunds = 3
    for attempt, hours in ((1, 1), (2, 6), (3, 24)):
        while await scene.refunds.run_once():
            pass
        assert await _refunds(scene, order) == [
            *(("failed", each) for each in range(1, attempt + 1)),
            ("due", attempt + 1),
        ]
        assert await scene.outcomes(order) == [("refund_due", "captured")]
        scene.clock.advance(hours=hours - 0.1)
        assert not await scene.refunds.run_once(), "not yet"
        scene.clock.advance(hours=0.1)
    assert await scene.refunds.run_once()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert len(set(scene.gateway.refunded)) == 4
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}


async def test_a_failed_refund_that_was_made_at_the_gateway_instead_is_not_repeated(scene: CardScene) -> None:
    order = await _refund_due(scene)
    scene.gateway.lost_refunds = 1
    assert await scene.refunds.run_once()
    [charge] = await scene.charges(order)
    await scene.gateway.inner.refund("re_dashboard", charge["reference"], charge["amount_minor"], "EUR")
    scene.clock.advance(hours=2)
    while await scene.refunds.run_once():
        pass
    rows = await scene.fetch("SELECT state, purpose, reference FROM refunds ORDER BY id")
    assert [tuple(row) for row in rows] == [
        ("failed", "surplus", None),
        ("cancelled", "surplus", None),
        ("succeeded", "surplus", "sim_re_dashboard"),
    ]
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert await scene.breaches() == {}


async def test_a_refund_is_retried_without_limit(scene: CardScene) -> None:
    await _refund_due(scene)
    scene.gateway.refund_faults = [RefundOutcome.UNAVAILABLE] * 1000
    for _ in range(50):
        scene.clock.advance(hours=1)
        assert await scene.refunds.run_once()


async def test_a_crash_between_refund_and_record(scene: CardScene) -> None:
    order = await _refund_due(scene)
    await scene.refunds.checks.run_once()
    make = scene.refunds.make
    await make.call_gateways(await make.claim())
    assert not await scene.refunds.run_once()
    scene.clock.advance(minutes=2)
    assert await scene.refunds.run_once()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}


async def test_a_delayed_worker_does_not_undo_a_refund(scene: CardScene) -> None:
    order = await _refund_due(scene)
    await scene.refunds.checks.run_once()
    make = scene.refunds.make
    scene.gateway.refund_faults = [RefundOutcome.UNAVAILABLE]
    answers = await make.call_gateways(await make.claim())
    scene.clock.advance(minutes=2)
    assert await scene.refunds.run_once()
    await make.settle(answers)
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert not await scene.refunds.run_once()


async def test_a_gateway_that_is_not_configured_is_retried(scene: CardScene) -> None:
    order = await _refund_due(scene)
    await scene.refunds.checks.run_once()
    gateway = scene.gateways.pop("simulated")
    assert await scene.refunds.run_once()
    scene.gateways["simulated"] = gateway
    scene.clock.advance(minutes=1)
    assert await scene.refunds.run_once()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert total(order) > 0
