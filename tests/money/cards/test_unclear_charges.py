"""Charges with an unknown result: they are looked up, and no order is charged twice."""

from datetime import timedelta

from structlog.testing import capture_logs

from tests.money.cards.card_scene import ANSWER_LOST, GOOD, NO_MONEY, REFUSED, REQUEST_LOST, CardScene, total
from tests.support.clock import START


async def _work_for(scene: CardScene, **time: int) -> None:
    """Advance the clock in steps of ten seconds and run the worker."""
    end = scene.clock.now + timedelta(**time)
    while scene.clock.now < end:
        scene.clock.advance(seconds=10)
        while await scene.work():
            pass


async def test_a_charge_that_timed_out_is_looked_up_and_not_repeated(scene: CardScene) -> None:
    order = await scene.order(ANSWER_LOST)
    assert await scene.work()
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("pending", "unknown")]
    assert not await scene.work()
    scene.clock.advance(seconds=10)
    assert await scene.work()
    assert await scene.status(order) == "paid"
    assert (len(scene.gateway.charged), len(scene.gateway.looked_up)) == (1, 1)
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_a_lost_request_is_sent_again_once_under_its_id(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    scene.gateway.faults = [scene.gateway.lose_request]
    await scene.work()
    await _work_for(scene, minutes=9)
    assert len(scene.gateway.charged) == 1, "it may still be on its way"
    assert len(scene.gateway.looked_up) >= 3
    assert await scene.status(order) == "placed"
    await _work_for(scene, minutes=3)
    assert await scene.status(order) == "paid"
    assert len(scene.gateway.charged) == 2
    assert len(set(scene.gateway.charged)) == 1
    assert await scene.outcomes(order) == [("captured", "captured")]
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_a_delayed_request_is_found_and_not_sent_again(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    await scene.worker.settle(
        [(attempt, await scene.gateway.lose_request(attempt.request)) for attempt in batch.attempts]
    )
    await _work_for(scene, minutes=8)
    [attempt] = batch.attempts
    await scene.gateway.inner.charge(attempt.request)
    await _work_for(scene, minutes=6)
    assert await scene.status(order) == "paid"
    assert scene.gateway.charged == []
    assert await scene.taken() == [total(order)]


async def test_a_network_that_loses_every_request_causes_no_second_id(scene: CardScene) -> None:
    """However long the outage lasts; the look-ups become less frequent."""
    order = await scene.order(REQUEST_LOST)
    for _ in range(3 * 24):
        scene.clock.advance(hours=1)
        await scene.work()
    assert await scene.status(order) == "placed"
    [charge] = await scene.charges(order)
    assert charge["status"] == "pending"
    assert len(set(scene.gateway.charged)) == 1
    assert 3 < len(scene.gateway.charged) < 40
    assert await scene.taken() == []


async def test_unavailable_on_a_resend_says_nothing_about_the_first_request(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    scene.gateway.faults = [scene.gateway.lose_request]
    await scene.work()
    await _work_for(scene, minutes=9)
    down = scene.gateway.charge

    async def turned_away(request: object) -> object:
        scene.gateway.is_down = True
        answer = await down(request)  # type: ignore[arg-type]
        scene.gateway.is_down = False
        return answer

    scene.gateway.charge = turned_away  # type: ignore[assignment,method-assign]
    await _work_for(scene, minutes=20)
    assert len(await scene.charges(order)) == 1
    assert await scene.status(order) == "placed"
    del scene.gateway.charge
    await _work_for(scene, hours=1)
    assert await scene.status(order) == "paid"
    assert await scene.taken() == [total(order)]


async def test_the_gateway_is_down_for_an_hour(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    scene.gateway.is_down = True
    tried = []
    while scene.clock.now < START + timedelta(hours=1):
        if await scene.work():
            tried.append(int((scene.clock.now - START).total_seconds()) // 60)
        scene.clock.advance(minutes=1)
    assert tried == [0, 1, 6, 21], "after 1, 5 and 15 minutes, then hourly"
    assert await scene.status(order) == "placed"
    scene.gateway.is_down = False
    await _work_for(scene, hours=1)
    assert await scene.status(order) == "paid"
    assert await scene.outcomes(order) == [("failed", "unavailable")] * 4 + [("captured", "captured")]
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_an_outage_uses_up_no_retry_and_an_attempt_resets_its_delays(scene: CardScene) -> None:
    order = await scene.order(NO_MONEY)
    for is_down, minutes in ((True, 1), (True, 5), (False, 60), (True, 1), (True, 5), (False, 24 * 60)):
        scene.gateway.is_down = is_down
        assert await scene.work()
        assert await scene.due_at(order) == scene.clock.now + timedelta(minutes=minutes)
        scene.clock.advance(minutes=minutes)
    assert await scene.status(order) == "placed"


async def test_a_look_up_during_an_outage_leaves_the_charge_pending(scene: CardScene) -> None:
    order = await scene.order(ANSWER_LOST)
    await scene.work()
    scene.gateway.is_down = True
    await _work_for(scene, minutes=30)
    assert await scene.outcomes(order) == [("pending", "unknown")]
    scene.gateway.is_down = False
    await _work_for(scene, hours=1)
    assert await scene.status(order) == "paid"
    assert len(scene.gateway.charged) == 1


async def test_a_gateway_that_is_not_configured_is_retried(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    gateway = scene.gateways.pop("simulated")
    assert await scene.work()
    assert await scene.outcomes(order) == [("failed", "unavailable")]
    scene.gateways["simulated"] = gateway
    scene.clock.advance(minutes=1)
    assert await scene.work()
    assert await scene.status(order) == "paid"


async def test_a_charge_whose_gateway_raised_is_looked_up(scene: CardScene) -> None:
    order, other = await scene.order(GOOD), await scene.order(GOOD)
    scene.gateway.faults = [scene.gateway.break_down]
    with capture_logs() as lines:
        assert await scene.work()
    assert "card_gateway_failed" in [line["event"] for line in lines]
    assert sorted([await scene.status(order), await scene.status(other)]) == ["paid", "placed"]
    scene.clock.advance(seconds=10)
    assert await scene.work()
    assert [await scene.status(order), await scene.status(other)] == ["paid", "paid"]
    assert len(await scene.taken()) == 2


async def test_a_crash_between_charge_and_record(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    await scene.worker.call_gateways(batch)
    # The worker dies here. No other worker touches the order before the lease expires.
    assert await scene.outcomes(order) == [("pending", None)]
    scene.clock.advance(seconds=119)
    assert not await scene.work()
    scene.clock.advance(seconds=1)
    assert await scene.work()
    assert await scene.status(order) == "paid"
    assert len(scene.gateway.charged) == 1
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_a_crash_between_decline_and_record(scene: CardScene) -> None:
    order = await scene.order(REFUSED)
    await scene.worker.call_gateways(await scene.worker.claim())
    scene.clock.advance(minutes=2)
    assert await scene.work()
    assert await scene.status(order) == "failed"
    assert await scene.outcomes(order) == [("failed", "refused")]
    assert len(scene.gateway.charged) == 1


async def test_a_crash_before_the_request_was_sent(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    await scene.worker.claim()
    await _work_for(scene, minutes=15)
    assert await scene.status(order) == "paid"
    assert len(await scene.charges(order)) == 1
    assert await scene.taken() == [total(order)]


async def test_a_crash_before_a_charge_without_a_card_was_refused(scene: CardScene) -> None:
    order = await scene.order(None)
    await scene.worker.claim()
    scene.clock.advance(minutes=2)
    assert await scene.work()
    assert await scene.status(order) == "failed"


async def test_a_delayed_worker_settles_nothing_twice(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    answers = await scene.worker.call_gateways(batch)
    scene.clock.advance(minutes=5)
    other = scene.another_worker()
    assert await other.run_once()
    assert await scene.status(order) == "paid"
    await scene.worker.settle(answers, batch.free)
    assert (await scene.event_types(order)).count("order.paid") == 1
    assert await scene.breaches() == {}


async def test_a_delayed_worker_does_not_postpone_the_next_attempt(scene: CardScene) -> None:
    order = await scene.order(NO_MONEY)
    answers = await scene.worker.call_gateways(await scene.worker.claim())
    scene.clock.advance(minutes=5)
    assert await scene.another_worker().run_once()
    due_at = await scene.due_at(order)
    assert due_at == scene.clock.now + timedelta(hours=1)
    scene.clock.advance(minutes=5)
    await scene.worker.settle(answers)
    assert await scene.due_at(order) == due_at
    assert await scene.outcomes(order) == [("failed", "declined")]


async def test_a_worker_delayed_before_sending_charges_the_same_id(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    other = scene.another_worker()
    for _ in range(40):
        scene.clock.advance(minutes=1)
        await other.run_once()
    assert await scene.status(order) == "paid", "the other one has sent it"
    await scene.worker.settle(await scene.worker.call_gateways(batch))
    assert len(scene.gateway.charged) == 2
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_an_order_that_is_due_while_its_charge_is_open_gets_no_second_charge(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    await scene.worker.claim()
    await scene.make_due(order)
    batch = await scene.worker.claim()
    assert not batch
    assert len(await scene.charges(order)) == 1
    assert not await scene.worker.claim(), "and it does not come up again and again"
