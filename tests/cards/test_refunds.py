"""Refunds are retried until they succeed, and made once."""

import pytest

from tests.cards.card_scene import GOOD, CardScene, total
from tonne.gateways.card import RefundOutcome
from tonne.orders.model import Order


async def _refund_due(scene: CardScene) -> Order:
    order = await scene.order(GOOD)
    answers = await scene.worker.call_gateways(await scene.worker.claim())
    await scene.cancel(order)
    await scene.worker.settle(answers)
    assert await scene.outcomes(order) == [("refund_due", "captured")]
    return order


@pytest.mark.parametrize("fault", [RefundOutcome.UNAVAILABLE, RefundOutcome.UNKNOWN, RefundOutcome.FAILED])
async def test_a_failed_refund_is_repeated_under_its_id(scene: CardScene, fault: RefundOutcome) -> None:
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
    [charge] = await scene.charges(order)
    assert (charge["refunded_at"], charge["next_attempt_at"]) == (scene.clock.now, None)
    assert await scene.breaches() == {}


async def test_a_refund_is_retried_without_limit(scene: CardScene) -> None:
    await _refund_due(scene)
    scene.gateway.refund_faults = [RefundOutcome.UNAVAILABLE] * 1000
    for _ in range(50):
        scene.clock.advance(hours=1)
        assert await scene.refunds.run_once()


async def test_a_crash_between_refund_and_record(scene: CardScene) -> None:
    order = await _refund_due(scene)
    await scene.refunds.call_gateways(await scene.refunds.claim())
    assert not await scene.refunds.run_once()
    scene.clock.advance(minutes=2)
    assert await scene.refunds.run_once()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert await scene.taken() == [0]
    assert await scene.breaches() == {}


async def test_a_delayed_worker_does_not_undo_a_refund(scene: CardScene) -> None:
    order = await _refund_due(scene)
    scene.gateway.refund_faults = [RefundOutcome.UNAVAILABLE]
    answers = await scene.refunds.call_gateways(await scene.refunds.claim())
    scene.clock.advance(minutes=2)
    assert await scene.refunds.run_once()
    await scene.refunds.settle(answers)
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert not await scene.refunds.run_once()


async def test_a_gateway_that_is_not_configured_is_retried(scene: CardScene) -> None:
    order = await _refund_due(scene)
    gateway = scene.gateways.pop("simulated")
    assert await scene.refunds.run_once()
    scene.gateways["simulated"] = gateway
    scene.clock.advance(minutes=1)
    assert await scene.refunds.run_once()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert total(order) > 0
