"""Over all orders, a bundle's projects sell in proportion to their weights."""

import asyncio
import random
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.supply.retirements.shop import TONNE, Shop
from tonne.apps.wiring.app import Services
from tonne.supply.stock.split_by_project import split_by_weight, without_common_part

SOLD = """
SELECT project.registry_project_id AS project, sum(lot.allocated_grams) / 1000000 AS tonnes
FROM lots lot JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.mode = $1 AND project.registry_project_id = ANY ($2::text[]) GROUP BY 1
"""
DRAWN = "SELECT max(drawn_grams) FROM bundle_projects WHERE mode = $1"


async def sold(shop: Shop, projects: str = "ABC") -> dict[str, int]:
    return {row["project"]: int(row["tonnes"]) for row in await shop.fetch(SOLD, shop.mode, list(projects))}


async def test_money_21_orders_together_follow_the_weights(live: Shop) -> None:
    await live.sell("mix", {"A": 1, "B": 1, "C": 1})
    # The third has the oldest vintage, and each an older and a newer lot.
    for project, vintage in (("A", 2021), ("B", 2020), ("C", 2017)):
        await live.supply(project, vintage + 1, 100)
        await live.supply(project, vintage, 15)
    ada = await live.account("Ada")
    for _ in range(60):
        await live.buy(ada, TONNE, "mix")
    await live.work()
    assert await sold(live) == {"A": 20, "B": 20, "C": 20}
    by_vintage: Counter[tuple[str, int]] = Counter()
    for cut in await live.cuts():
        by_vintage[cut.project, cut.vintage] += cut.quantity_grams // TONNE
    assert by_vintage == {
        ("A", 2021): 15,
        ("B", 2020): 15,
        ("C", 2017): 15,
        ("A", 2022): 5,
        ("B", 2021): 5,
        ("C", 2018): 5,
    }
    for count in range(1, 31):
        await live.buy(ada, 2 * TONNE, "mix")
        await live.work()
        tonnes = (await sold(live)).values()
        assert (sum(tonnes), max(tonnes) - min(tonnes) <= 1) == (60 + 2 * count, True)
    await live.check_invariants()


async def test_different_weights_are_followed_over_small_orders(live: Shop) -> None:
    await live.sell("mix", {"A": 50, "B": 30, "C": 20})
    for project in "ABC":
        await live.supply(project, 2020, 100)
    ada = await live.account("Ada")
    for _ in range(10):
        await live.buy(ada, TONNE, "mix")
    await live.work()
    assert await sold(live) == {"A": 5, "B": 3, "C": 2}


async def test_a_project_that_was_short_is_not_preferred_afterwards(live: Shop) -> None:
    await live.sell("mix", {"A": 1, "B": 1})
    await live.supply("B", 2020, 100)
    ada = await live.account("Ada")
    for _ in range(10):
        await live.buy(ada, TONNE, "mix")
    await live.work()
    await live.supply("A", 2020, 100)
    for _ in range(10):
        await live.buy(ada, TONNE, "mix")
    await live.work()
    assert await sold(live, "AB") == {"A": 5, "B": 15}


async def test_new_weights_start_afresh(live: Shop) -> None:
    await live.sell("mix", {"A": 1})
    await live.supply("A", 2020, 100)
    ada = await live.account("Ada")
    for _ in range(9):
        await live.buy(ada, TONNE, "mix")
    await live.work()
    await live.sell("mix", {"A": 2, "B": 1})
    await live.supply("B", 2020, 100)
    for _ in range(9):
        await live.buy(ada, TONNE, "mix")
    await live.work()
    assert await sold(live, "AB") == {"A": 15, "B": 3}


async def test_several_workers_follow_the_weights_together(live: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonne.supply.retirements.allocate_orders.BATCH", 3)
    await live.sell("mix", {"A": 3, "B": 2, "C": 1})
    await live.sell("also", {"C": 1, "A": 1})
    for project in "ABC":
        await live.supply(project, 2020, 500)
    ada = await live.account("Ada")
    orders = [await live.buy(ada, TONNE, "mix" if number % 2 else "also") for number in range(60)]
    meet = asyncio.Barrier(4)

    async def work() -> None:
        services = Services(live.services.database, live.services.settings, clock=live.clock)
        await meet.wait()
        while await services.allocate_orders.run_once():
            pass

    await asyncio.gather(*(work() for _ in range(4)))
    assert await live.statuses(*orders) == ["retiring"] * 60
    # 30 orders of each: 15, 10, 5 and 15, 15.
    assert await sold(live) == {"A": 30, "B": 10, "C": 20}
    assert await live.fetchval(DRAWN, live.mode) <= 10 * TONNE, "the numbers stay small"
    await live.check_invariants()


async def test_a_line_does_not_take_what_another_line_of_the_order_needs(live: Shop) -> None:
    """Taken alone, the first line would get A, the only project of the second."""
    await live.sell("mix", {"A": 1, "B": 1})
    await live.sell("only", {"A": 1})
    await live.supply("A", 2020, 2, retired=True)
    await live.supply("B", 2020, 2, retired=True)
    order = await live.buy(await live.account("Ada"), 4 * TONNE, "mix", "only")
    assert [line.insufficient_available_quantity for line in order.lines] == [False, False]
    await live.work()
    shown = await live.shown(order)
    assert shown["status"] == "complete"
    assert sum(Decimal(project["quantity"]) for project in shown["projects"]) == 4
    await live.check_invariants()


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=6), st.lists(st.integers(1, 10**10), max_size=30))
def test_a_split_is_complete_and_close_to_the_weights(weights: list[int], quantities: list[int]) -> None:
    drawn, counted, total = [0] * len(weights), [0] * len(weights), 0
    for grams in quantities:
        targets = split_by_weight(grams, weights, counted)
        assert sum(targets) == grams
        assert min(targets) >= 0
        assert sum(1 for target in targets if target % TONNE) <= 1, "one project gets the rest below a tonne"
        drawn = [old + new for old, new in zip(drawn, targets, strict=True)]
        counted = without_common_part(weights, [old + new for old, new in zip(counted, targets, strict=True)])
        assert split_by_weight(grams, weights, counted) == split_by_weight(grams, weights, drawn)
        total += grams
        for weight, grams_drawn in zip(weights, drawn, strict=True):
            assert abs(grams_drawn - total * weight / sum(weights)) < len(weights) * TONNE


def test_the_stored_numbers_stay_small() -> None:
    rng = random.Random(9)  # noqa: S311 - repeatable on purpose
    weights, drawn = [1, 999, 500], [0, 0, 0]
    for _ in range(10_000):
        targets = split_by_weight(rng.randint(1, 10**14), weights, drawn)
        drawn = without_common_part(weights, [old + new for old, new in zip(drawn, targets, strict=True)])
        assert max(drawn) < 2_000 * TONNE
