"""Orders paid by card, with dates. All are placed on 1 November at 9:00."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.money.cards.card_scene import DECLINED_TWICE, GOOD, NO_MONEY, REFUSED, CardScene, total
from tests.support.clock import START
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.cards.gateways.card import ChargeRequest, ChargeResult
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace
from tonne.selling.orders.model import Order

MOMENT = timedelta(milliseconds=1)


async def _try_until_it_is_due_no_more(scene: CardScene, order: Order) -> list[datetime]:
    """Run the worker each time the order is due, and check that it does nothing before; returns the times."""
    tried = [scene.clock.now]
    assert await scene.work()
    while (due_at := await scene.due_at(order)) is not None and await scene.status(order) == "placed":
        scene.clock.now = due_at - MOMENT
        assert not await scene.work()
        scene.clock.now = due_at
        assert await scene.work()
        tried.append(due_at)
    return tried


async def test_a_card_that_works_pays_at_the_first_try(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    scene.clock.advance(seconds=1)
    assert await scene.work()
    assert await scene.status(order) == "paid"
    assert await scene.event_types(order) == ["order.received", "order.placed", "order.paid"]
    [charge] = await scene.charges(order)
    assert (charge["status"], charge["attempt"], charge["amount_minor"]) == ("captured", 1, total(order))
    assert (charge["source"], charge["method"], charge["session_id"]) == ("stored_card", GOOD, None)
    assert (charge["created_at"], charge["settled_at"]) == (scene.clock.now, scene.clock.now)
    assert await scene.taken() == [total(order)]
    assert await scene.due_at(order) == scene.clock.now, "its supply is allocated next"
    assert not await scene.work()
    assert await scene.breaches() == {}


async def test_declined_twice_then_paid(scene: CardScene) -> None:
    order = await scene.order(DECLINED_TWICE)
    tried = await _try_until_it_is_due_no_more(scene, order)
    assert tried == [START, datetime(2026, 11, 1, 10, tzinfo=UTC), datetime(2026, 11, 2, 10, tzinfo=UTC)]
    assert await scene.status(order) == "paid"
    assert await scene.outcomes(order) == [("failed", "declined"), ("failed", "declined"), ("captured", "captured")]
    charges = await scene.charges(order)
    assert [charge["code"] for charge in charges] == ["try_again_later", "try_again_later", None]
    assert len({charge["id"] for charge in charges}) == 3, "an id names one outcome"
    assert await scene.taken() == [total(order)]
    assert await scene.breaches() == {}


async def test_a_card_without_funds_is_retried_for_four_days_and_then_fails_the_order(scene: CardScene) -> None:
    order = await scene.order(NO_MONEY)
    tried = await _try_until_it_is_due_no_more(scene, order)
    assert [moment.isoformat(" ", "hours")[:13] for moment in tried] == [
        "2026-11-01 09",
        "2026-11-01 10",
        "2026-11-02 10",
        "2026-11-05 10",
    ]
    assert await scene.status(order) == "failed"
    assert (await scene.event_types(order))[-1] == "order.failed"
    assert await scene.taken() == []
    assert await scene.breaches() == {}


async def test_a_hard_decline_fails_the_order_at_once(scene: CardScene) -> None:
    order = await scene.order(REFUSED)
    assert await scene.work()
    assert await scene.status(order) == "failed"
    assert await scene.outcomes(order) == [("failed", "refused")]
    assert await scene.due_at(order) is None
    assert await scene.breaches() == {}


async def test_a_retry_uses_the_card_that_is_stored_now(scene: CardScene) -> None:
    order = await scene.order(NO_MONEY)
    await scene.work()
    await scene.pay_by_card(GOOD)
    assert not await scene.work()
    scene.clock.advance(hours=1)
    assert await scene.work()
    assert await scene.status(order) == "paid"


async def test_an_account_without_a_card_cannot_pay_by_card(scene: CardScene) -> None:
    order = await scene.order(None)
    assert await scene.work()
    assert await scene.status(order) == "failed"
    [charge] = await scene.charges(order)
    assert (charge["status"], charge["outcome"], charge["code"]) == ("failed", "refused", "no_card")
    assert (charge["source"], charge["customer"], charge["method"], charge["session_id"]) == ("none", None, None, None)
    assert scene.gateway.charged == []
    assert await scene.breaches() == {}


async def test_a_zero_total_order_is_paid_without_a_charge(scene: CardScene) -> None:
    order = await scene.order(GOOD)
    await scene.execute(
        "UPDATE orders SET total_cost_minor = 0, offset_cost_minor = 0, commission_minor = 0; "
        "UPDATE order_lines SET offset_cost_minor = 0"
    )
    batch = await scene.worker.claim()
    assert batch
    assert batch.attempts == []
    # After a crash here the order is due again.
    assert not await scene.work()
    scene.clock.advance(minutes=2)
    assert await scene.work()
    assert await scene.status(order) == "paid"
    assert await scene.charges(order) == []
    assert await scene.breaches() == {}


async def test_a_capture_of_another_amount_is_a_mismatch(scene: CardScene) -> None:
    """The order stays unpaid and is not charged again until a person decides."""

    async def take_one_more(request: ChargeRequest) -> ChargeResult:
        return await scene.gateway.inner.charge(replace(request, amount_minor=request.amount_minor + 1))

    order = await scene.order(GOOD)
    scene.gateway.faults = [take_one_more]
    assert await scene.work()
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("mismatched", "captured")]
    [charge] = await scene.charges(order)
    assert (charge["captured_minor"], charge["captured_currency"]) == (total(order) + 1, "EUR")
    assert await scene.breaches() == {}
    # Not even if the order becomes due again.
    await scene.make_due(order)
    scene.clock.advance(days=30)
    await scene.work()
    assert len(scene.gateway.charged) == 1
    assert not await scene.work()


async def test_a_capture_in_another_currency_is_a_mismatch(scene: CardScene) -> None:
    async def take_yen(request: ChargeRequest) -> ChargeResult:
        return await scene.gateway.inner.charge(replace(request, currency="JPY"))

    order = await scene.order(GOOD)
    scene.gateway.faults = [take_yen]
    await scene.work()
    assert await scene.outcomes(order) == [("mismatched", "captured")]


async def test_an_account_that_waits_for_the_test_helpers_is_left_alone(scene: CardScene) -> None:
    await scene.wait_for_helpers()
    order = await scene.order(GOOD)
    scene.clock.advance(days=1)
    assert not await scene.work()
    assert await scene.status(order) == "placed"


async def test_orders_paid_by_invoice_are_not_charged(scene: CardScene) -> None:
    await scene.pay_by_card(GOOD)
    await scene.execute("UPDATE accounts SET payment_method = 'invoice'")
    order = await scene.order_as_the_account_says()
    scene.clock.advance(days=1)
    assert not await scene.work()
    assert await scene.status(order) == "placed"


async def test_the_time_scale_shortens_all_delays(services: Services, world: World) -> None:
    scene = CardScene(services, world.ours_test, settings=Settings(payment_time_scale=0.001))
    order = await scene.order(NO_MONEY)
    tried = await _try_until_it_is_due_no_more(scene, order)
    assert tried[1] - tried[0] == timedelta(seconds=3.6)
    assert tried[-1] - START < timedelta(minutes=6)
    assert await scene.status(order) == "failed"


async def test_an_order_that_cannot_be_settled_does_not_block_the_others(scene: CardScene, world: World) -> None:
    theirs = CardScene(scene.services, world.theirs_test, scene.clock)
    spoilt = await theirs.order(GOOD)
    orders = [await scene.order(GOOD) for _ in range(3)]
    organisation = world.theirs_test.scope.organisation_id
    await scene.execute("DELETE FROM event_streams WHERE organisation_id = $1", organisation)
    with capture_logs() as lines:
        await scene.work()
    assert spoilt.id in [line["order_id"] for line in lines if line["event"] == "charge_not_settled"]
    assert {await scene.status(order) for order in orders} == {"paid"}
    assert await scene.status(spoilt) == "placed"
    assert await scene.outcomes(spoilt) == [("pending", None)]


async def test_a_batch_takes_as_many_statements_as_a_single_order(
    scene: CardScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the answers would arrive in several groups, each of which is a transaction.
    monkeypatch.setattr("tonne.money.cards.charge_cards.SETTLE_EVERY", timedelta(minutes=1))
    counts = []
    for size in (1, 30):
        orders = [await scene.order(GOOD) for _ in range(size)]
        counts.append(await _count_statements(scene))
        assert {await scene.status(order) for order in orders} == {"paid"}
    assert counts[0] == counts[1]
    assert 0 < counts[0] <= 13


async def _count_statements(scene: CardScene) -> int:
    """The statements of one run, without those of the simulated gateway and of asyncpg itself."""
    seen: list[str] = []
    connections = [await scene.database.acquire() for _ in range(scene.settings.database_connections)]

    def note(record: asyncpg.connection.LoggedQuery) -> None:
        seen.append(record.query)

    for connection in connections:
        connection.add_query_logger(note)
        scene.database.release(connection, reusable=True)
    await scene.work()
    for connection in connections:
        connection.remove_query_logger(note)
    others = ("simulated_charges", "typeinfo_tree", "current_setting('jit')", "BEGIN", "COMMIT")
    return len([query for query in seen if not any(part in query for part in others)])
