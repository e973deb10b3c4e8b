"""Charges of which nobody knows what came: they are asked about, and nobody pays twice."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.cards.card_scene import (
    ANSWER_LOST,
    GOOD,
    NO_MONEY,
    REFUSED,
    REQUEST_LOST,
    CardScene,
    total,
)
from tests.support.world import START, World
from tonne.app import Services
from tonne.base.settings import Settings


@pytest.fixture
def scene(services: Services, world: World, settings: Settings) -> CardScene:
    return CardScene(services, world.ours_test, settings)


async def _work_for(scene: CardScene, **time: int) -> None:
    """Let time pass in steps of ten seconds, with a worker that does what is due."""
    end = scene.clock.now + timedelta(**time)
    while scene.clock.now < end:
        scene.clock.after(seconds=10)
        while await scene.work():
            pass


async def test_a_time_out_after_charging_is_asked_about_and_not_charged_again(scene: CardScene) -> None:
    order = await scene.order(ANSWER_LOST)
    assert await scene.work()
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("pending", "unknown")]
    assert not await scene.work()
    scene.clock.after(seconds=10)
    assert await scene.work()
    assert await scene.status(order) == "paid"
    assert (len(scene.line.charged), len(scene.line.looked_up)) == (1, 1)
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_a_request_that_got_lost_is_sent_again_once_under_its_id(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    scene.line.faults = [scene.line.lose_request]
    await scene.work()
    await _work_for(scene, minutes=9)
    assert len(scene.line.charged) == 1, "it may still be on its way"
    assert len(scene.line.looked_up) >= 3
    assert await scene.status(order) == "placed"
    await _work_for(scene, minutes=3)
    assert await scene.status(order) == "paid"
    assert len(scene.line.charged) == 2
    assert len(set(scene.line.charged)) == 1
    assert await scene.outcomes(order) == [("captured", "captured")]
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_a_request_that_turns_up_late_is_found_and_not_sent_again(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    await scene.worker.settle([(attempt, await scene.line.lose_request(attempt.request)) for attempt in batch.attempts])
    await _work_for(scene, minutes=8)
    [attempt] = batch.attempts
    await scene.line.gateway.charge(attempt.request)
    await _work_for(scene, minutes=6)
    assert await scene.status(order) == "paid"
    assert scene.line.charged == []
    assert await scene.taken() == [total(order)]


async def test_a_line_that_loses_everything_makes_no_second_id(scene: CardScene) -> None:
    """However long it lasts, and less and less often."""
    order = await scene.order(REQUEST_LOST)
    for _ in range(3 * 24):
        scene.clock.after(hours=1)
        await scene.work()
    assert await scene.status(order) == "placed"
    [charge] = await scene.charges(order)
    assert charge["status"] == "pending"
    assert len(set(scene.line.charged)) == 1
    assert 3 < len(scene.line.charged) < 40
    assert await scene.taken() == []


async def test_unavailable_when_it_is_sent_again_says_nothing_about_the_first_request(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    scene.line.faults = [scene.line.lose_request]
    await scene.work()
    await _work_for(scene, minutes=9)
    down = scene.line.charge

    async def turned_away(request: object) -> object:
        scene.line.is_down = True
        answer = await down(request)  # type: ignore[arg-type]
        scene.line.is_down = False
        return answer

    scene.line.charge = turned_away  # type: ignore[assignment,method-assign]
    await _work_for(scene, minutes=20)
    assert len(await scene.charges(order)) == 1
    assert await scene.status(order) == "placed"
    del scene.line.charge
    await _work_for(scene, hours=1)
    assert await scene.status(order) == "paid"
    assert await scene.taken() == [total(order)]


async def test_the_gateway_is_down_for_an_hour(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    scene.line.is_down = True
    tried = []
    while scene.clock.now < START + timedelta(hours=1):
        if await scene.work():
            tried.append(int((scene.clock.now - START).total_seconds()) // 60)
        scene.clock.after(minutes=1)
    assert tried == [0, 1, 6, 21], "after 1, 5 and 15 minutes, then hourly"
    assert await scene.status(order) == "placed"
    scene.line.is_down = False
    await _work_for(scene, hours=1)
    assert await scene.status(order) == "paid"
    assert await scene.outcomes(order) == [("failed", "unavailable")] * 4 + [("captured", "captured")]
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_an_outage_uses_up_no_try_and_a_try_ends_the_outage(scene: CardScene) -> None:
    order = await scene.order(NO_MONEY)
    for is_down, minutes in ((True, 1), (True, 5), (False, 60), (True, 1), (True, 5), (False, 24 * 60)):
        scene.line.is_down = is_down
        assert await scene.work()
        assert await scene.due_at(order) == scene.clock.now + timedelta(minutes=minutes)
        scene.clock.after(minutes=minutes)
    assert await scene.status(order) == "placed"


async def test_a_gateway_that_is_down_when_it_is_asked_leaves_all_open(scene: CardScene) -> None:
    order = await scene.order(ANSWER_LOST)
    await scene.work()
    scene.line.is_down = True
    await _work_for(scene, minutes=30)
    assert await scene.outcomes(order) == [("pending", "unknown")]
    scene.line.is_down = False
    await _work_for(scene, hours=1)
    assert await scene.status(order) == "paid"
    assert len(scene.line.charged) == 1


async def test_a_gateway_that_is_not_set_up_is_waited_for(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    gateway = scene.gateways.pop("simulated")
    assert await scene.work()
    assert await scene.outcomes(order) == [("failed", "unavailable")]
    scene.gateways["simulated"] = gateway
    scene.clock.after(minutes=1)
    assert await scene.work()
    assert await scene.status(order) == "paid"


async def test_a_gateway_that_raises_in_the_middle_is_asked_what_it_did(scene: CardScene) -> None:
    order, other = await scene.order(GOOD), await scene.order(GOOD)
    scene.line.faults = [scene.line.break_down]
    with capture_logs() as lines:
        assert await scene.work()
    assert "card_gateway_failed" in [line["event"] for line in lines]
    assert sorted([await scene.status(order), await scene.status(other)]) == ["paid", "placed"]
    scene.clock.after(seconds=10)
    assert await scene.work()
    assert [await scene.status(order), await scene.status(other)] == ["paid", "paid"]
    assert len(await scene.taken()) == 2


async def test_a_crash_between_charge_and_record(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    await scene.worker.call_gateways(batch)
    # The worker dies here. Nobody touches the order while its lease lasts.
    assert await scene.outcomes(order) == [("pending", None)]
    scene.clock.after(seconds=119)
    assert not await scene.work()
    scene.clock.after(seconds=1)
    assert await scene.work()
    assert await scene.status(order) == "paid"
    assert len(scene.line.charged) == 1
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_a_crash_between_decline_and_record(scene: CardScene) -> None:
    order = await scene.order(REFUSED)
    await scene.worker.call_gateways(await scene.worker.claim())
    scene.clock.after(minutes=2)
    assert await scene.work()
    assert await scene.status(order) == "failed"
    assert await scene.outcomes(order) == [("failed", "refused")]
    assert len(scene.line.charged) == 1


async def test_a_crash_before_the_request_went_out(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    await scene.worker.claim()
    await _work_for(scene, minutes=15)
    assert await scene.status(order) == "paid"
    assert len(await scene.charges(order)) == 1
    assert await scene.taken() == [total(order)]


async def test_a_crash_before_an_account_was_found_to_have_no_card(scene: CardScene) -> None:
    order = await scene.order(None)
    await scene.worker.claim()
    scene.clock.after(minutes=2)
    assert await scene.work()
    assert await scene.status(order) == "failed"


async def test_a_worker_that_was_frozen_settles_nothing_a_second_time(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    answers = await scene.worker.call_gateways(batch)
    scene.clock.after(minutes=5)
    other = scene.another_worker()
    assert await other.run_once()
    assert await scene.status(order) == "paid"
    await scene.worker.settle(answers, batch.free)
    assert (await scene.events(order)).count("order.paid") == 1
    assert await scene.breaches() == {}


async def test_a_worker_that_was_frozen_does_not_put_off_the_next_try(scene: CardScene) -> None:
    order = await scene.order(NO_MONEY)
    answers = await scene.worker.call_gateways(await scene.worker.claim())
    scene.clock.after(minutes=5)
    assert await scene.another_worker().run_once()
    due_at = await scene.due_at(order)
    assert due_at == scene.clock.now + timedelta(hours=1)
    scene.clock.after(minutes=5)
    await scene.worker.settle(answers)
    assert await scene.due_at(order) == due_at
    assert await scene.outcomes(order) == [("failed", "declined")]


async def test_a_worker_that_was_frozen_before_it_sent_anything_charges_the_same_id(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    batch = await scene.worker.claim()
    other = scene.another_worker()
    for _ in range(40):
        scene.clock.after(minutes=1)
        await other.run_once()
    assert await scene.status(order) == "paid", "the other one has sent it"
    await scene.worker.settle(await scene.worker.call_gateways(batch))
    assert len(scene.line.charged) == 2
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_an_order_made_due_while_its_charge_is_open_gets_no_second_one(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    await scene.worker.claim()
    await scene.make_due(order)
    batch = await scene.worker.claim()
    assert not batch
    assert len(await scene.charges(order)) == 1
    assert not await scene.worker.claim(), "and it does not come up again and again"
