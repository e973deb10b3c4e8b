"""The totals of orders equal the orders at any time, folded or not."""

import asyncio
import random
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.support.orders import bring_to, place
from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode, Tenant
from tonne.selling.orders.model import OrderStatus
from tonne.selling.orders.totals.fold_totals import FoldTotals, fold_deltas
from tonne.selling.orders.totals.totals import OrderTotal, list_totals

NOVEMBER = datetime(2026, 11, 16, 12, tzinfo=UTC)
STATUSES = (*OrderStatus,)


@pytest.fixture
def scene(services: Services) -> Scene:
    return Scene(services)


async def totals(
    scene: Scene, world: World, since: date = date(2026, 1, 1), mode: Mode = Mode.TEST
) -> list[OrderTotal]:
    async with scene.database.connection() as connection:
        return await list_totals(connection, Tenant(world.ours_test.scope.organisation_id, mode), since)


async def miscounted(scene: Scene) -> list[str]:
    """What the invariant finds. The orders of this file break others: they have no supply."""
    return (await scene.breaches()).get("the totals of orders match the orders", [])


async def test_orders_are_counted_by_month_and_status(scene: Scene, world: World) -> None:
    scope = world.ours_test.scope
    first = await bring_to(scene.services, scope, OrderStatus.COMPLETE, NOVEMBER)
    await bring_to(scene.services, scope, OrderStatus.COMPLETE, NOVEMBER)
    await bring_to(scene.services, scope, OrderStatus.PLACED, NOVEMBER - timedelta(days=30))
    # In UTC it is October still.
    await bring_to(scene.services, scope, OrderStatus.RECEIVED, datetime(2026, 10, 31, 23, 59, tzinfo=UTC))
    await bring_to(scene.services, world.ours_live.scope, OrderStatus.PLACED, NOVEMBER)
    await bring_to(scene.services, world.theirs_test.scope, OrderStatus.PLACED, NOVEMBER)
    assert first.priced is not None
    grams, cost_minor = first.priced.quantity_grams, first.priced.total_cost_minor
    expected = [
        OrderTotal(date(2026, 10, 1), "EUR", OrderStatus.PLACED, 1, grams, cost_minor),
        OrderTotal(date(2026, 10, 1), "EUR", OrderStatus.RECEIVED, 1, 0, 0),
        OrderTotal(date(2026, 11, 1), "EUR", OrderStatus.COMPLETE, 2, 2 * grams, 2 * cost_minor),
    ]
    assert await totals(scene, world) == expected
    await scene.run_jobs(FoldTotals(scene.database))
    assert await scene.fetchval("SELECT count(*) FROM order_deltas") == 0
    assert await totals(scene, world) == expected
    assert [total.status for total in await totals(scene, world, date(2026, 12, 1))] == ["placed", "received"]
    assert len(await totals(scene, world, mode=Mode.LIVE)) == 1
    assert await miscounted(scene) == []


async def test_refunds_and_taxes_change_the_spend(scene: Scene, world: World) -> None:
    order = await bring_to(scene.services, world.ours_test.scope, OrderStatus.COMPLETE, NOVEMBER)
    [before] = await totals(scene, world)
    await scene.execute("UPDATE orders SET tax_minor = 300 WHERE id = $1", order.id)
    await scene.run_jobs(FoldTotals(scene.database))
    await scene.execute("UPDATE orders SET refunded_minor = 100 WHERE id = $1", order.id)
    [after] = await totals(scene, world)
    assert after.spend_minor == before.spend_minor + 200
    assert (after.orders, after.grams) == (before.orders, before.grams)


async def test_an_update_that_counts_nothing_writes_no_delta(scene: Scene, world: World) -> None:
    await place(scene.services, world.ours_test.scope, NOVEMBER)
    await scene.run_jobs(FoldTotals(scene.database))
    await scene.execute("UPDATE orders SET next_attempt_at = now(), email = 'ann@ours.test'")
    assert await scene.fetchval("SELECT count(*) FROM order_deltas") == 0


async def test_random_changes_folded_by_two_workers_are_counted_exactly(scene: Scene, world: World) -> None:
    """Orders change while two workers fold small batches."""
    rng = random.Random(41)  # noqa: S311 - repeatable on purpose
    scopes = (world.ours_test.scope, world.ours_live.scope, world.theirs_test.scope)
    is_done = False

    async def fold() -> None:
        while True:
            async with scene.database.connection() as connection:
                if not await fold_deltas(connection, 3) and is_done:
                    return

    async def change() -> None:
        for _ in range(12):
            at = NOVEMBER - timedelta(days=rng.randint(0, 400))
            await bring_to(scene.services, rng.choice(scopes), rng.choice(STATUSES), at)

    workers = [asyncio.create_task(fold()) for _ in range(2)]
    await asyncio.gather(change(), change())
    assert await miscounted(scene) == []
    is_done = True
    await asyncio.gather(*workers)
    assert await scene.fetchval("SELECT count(*) FROM order_deltas") == 0
    assert await scene.fetchval("SELECT sum(orders) FROM order_totals") == 24
    assert await miscounted(scene) == []
