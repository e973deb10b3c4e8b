"""Totals of the Sustainability page, updated in the transaction that completes an order."""

import asyncio
import random
from datetime import UTC, date, datetime

import httpx
import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.values.context import Scope
from tonne.supply.certificates.totals import month_of

TOTALS = """
SELECT month, bundle_name, project_name, grams FROM retired_totals
WHERE account_id = $1 ORDER BY month, bundle_name, project_name
"""


async def totals(shop: Shop, scope: Scope) -> list[tuple[date, str, str, int]]:
    async with shop.services.database.connection() as connection:
        rows = await connection.fetch(TOTALS, scope.account_id)
    return [(row["month"], row["bundle_name"], row["project_name"], row["grams"]) for row in rows]


async def test_orders_that_complete_at_once_are_counted_by_bundle_and_project(live: Shop) -> None:
    await live.sell("wind", {"A": 1, "B": 1})
    await live.sell("sun", {"B": 1})
    await live.supply("A", 2020, 3, retired=True)
    await live.supply("B", 2021, 100, retired=True)
    ada, bob = await live.account("Ada"), await live.account("Bob")
    await live.buy(ada, 4 * TONNE + 500_000, "wind")
    await live.buy(ada, 2 * TONNE, "sun")
    await live.buy(bob, TONNE, "sun")
    await live.work()
    march = date(2026, 3, 1)
    assert await totals(live, bob) == [(march, "The sun", "Project B", TONNE)]
    counted = await totals(live, ada)
    assert sum(grams for *_, grams in counted) == 6 * TONNE + 500_000
    assert {(month, bundle) for month, bundle, _, _ in counted} == {(march, "The wind"), (march, "The sun")}
    assert (march, "The sun", "Project B", 2 * TONNE) in counted
    await live.check_invariants()


async def test_an_order_is_counted_when_its_last_gram_is_retired_and_in_that_month(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10)
    ada = await live.account("Ada")
    order = await live.buy(ada, 2 * TONNE, "wind")
    await live.work()
    assert await live.statuses(order) == ["retiring"]
    assert await totals(live, ada) == []
    live.clock.turn_to(5, 31, 23)
    await live.confirm(*await live.work_list())
    await live.work()
    assert await live.statuses(order) == ["complete"]
    assert await totals(live, ada) == [(date(2026, 5, 1), "The wind", "Project A", 2 * TONNE)]
    await live.check_invariants()


async def test_a_later_order_adds_to_its_month_and_brings_the_latest_names(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    ada = await live.account("Ada")
    await live.buy(ada, TONNE, "wind")
    await live.work()
    async with live.services.database.transaction() as tx:
        await tx.execute("UPDATE projects SET name = 'Renamed' WHERE registry_project_id = 'A'")
    await live.buy(ada, TONNE, "wind")
    await live.work()
    assert await totals(live, ada) == [(date(2026, 3, 1), "The wind", "Renamed", 2 * TONNE)]


async def test_the_test_helper_that_completes_counts_once(trial: Shop, world: World) -> None:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    waiting = await trial.account("Ada", auto_advance=False, of=world.ours_test.scope)
    order = await trial.buy(waiting, TONNE, "wind")
    transport = httpx.ASGITransport(build_app(trial.services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        api = ApiClient(http, world.ours_test.key)
        path = f"/v1/test-helpers/orders/{order.id}/complete"
        answers = [await api.post(path, {}, Service_Account=waiting.account_id) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 409], answers[0].text
    assert await totals(trial, waiting) == [(date(2026, 3, 1), "The wind", "Project A", TONNE)]
    await trial.check_invariants()


async def test_workers_at_once_count_every_gram_and_never_wait_for_each_other(
    live: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonne.supply.retirements.allocate_orders.BATCH", 5)
    await live.sell("wind", {"A": 1, "B": 2, "C": 3})
    await live.sell("sun", {"C": 1, "A": 1})
    for project in "ABC":
        await live.supply(project, 2020, 400, retired=True)
    rng = random.Random(11)  # noqa: S311 - repeatable on purpose
    buyers = [await live.account(f"Buyer {number}") for number in range(4)]
    bought = dict.fromkeys((buyer.account_id for buyer in buyers), 0)
    for _ in range(60):
        buyer, grams = rng.choice(buyers), rng.randint(1, 3 * TONNE)
        await live.buy(buyer, grams, rng.choice(["wind", "sun"]))
        bought[buyer.account_id] += grams
    meet = asyncio.Barrier(4)

    async def work() -> None:
        services = Services(live.services.database, live.services.settings, clock=live.clock)
        await meet.wait()
        while await services.allocate_orders.run_once():
            pass

    await asyncio.gather(*(work() for _ in range(4)))
    for buyer in buyers:
        assert sum(grams for *_, grams in await totals(live, buyer)) == bought[buyer.account_id]
    await live.check_invariants()


def test_the_month_is_that_of_utc() -> None:
    assert month_of(datetime.fromisoformat("2026-04-01T01:30:00+02:00")) == date(2026, 3, 1)
    assert month_of(datetime(2026, 12, 31, 23, 59, tzinfo=UTC)) == date(2026, 12, 1)
