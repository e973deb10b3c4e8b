"""Allocation to paid orders: oldest whole units first, by weight, and each order wholly or not at all."""

from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.supply.retirements.shop import KILOGRAM, TONNE, Cut, Shop
from tests.support.command import output_of
from tests.support.events import stored_events
from tonne.selling.orders.model import Order


def taken(cut: Cut) -> tuple[str, int, int, int]:
    """The parcels by project and vintage, in whole tonnes."""
    return cut.project, cut.vintage, cut.start_grams // TONNE, cut.quantity_grams // TONNE


def tonnes_by_project(order: dict[str, Any]) -> dict[str, str]:
    return {project["project_name"]: project["quantity"] for project in order["projects"]}


def check_projects_sum_to_lines(order: dict[str, Any]) -> None:
    """In grams and in minor units. Lines and their projects are in the same order."""
    projects = list(order["projects"])
    for line in order["bundles"]:
        quantity = cost = Decimal(0)
        while quantity < Decimal(line["quantity"]):
            project = projects.pop(0)
            quantity, cost = quantity + Decimal(project["quantity"]), cost + Decimal(project["offset_cost"])
            assert project["unit_price"] == line["unit_price"]
        assert (quantity, cost) == (Decimal(line["quantity"]), Decimal(line["offset_cost"]))
    assert projects == []


async def test_whole_tonnes_come_from_the_oldest_vintage_first(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    for vintage, tonnes in ((2021, 10), (2019, 3), (2020, 4)):
        await live.supply("A", vintage, tonnes)
    ada = await live.account("Ada")
    # 1 March: five tonnes, which the oldest lot alone does not have.
    first = await live.buy(ada, 5 * TONNE, "wind")
    await live.work()
    assert [taken(cut) for cut in await live.cuts()] == [("A", 2019, 0, 3), ("A", 2020, 0, 2)]
    # 2 March: the next one goes on where the first one stopped.
    live.clock.turn_to(3, 2)
    second = await live.buy(ada, 3 * TONNE, "wind")
    await live.work()
    assert [taken(cut) for cut in await live.cuts()] == [
        *(("A", 2019, 0, 3), ("A", 2020, 0, 2), ("A", 2020, 2, 2), ("A", 2021, 0, 1)),
    ]
    assert await live.statuses(first, second) == ["retiring", "retiring"]
    await live.check_invariants()


async def test_a_bundle_draws_on_its_projects_by_weight(live: Shop) -> None:
    await live.sell("mix", {"A": 50, "B": 30, "C": 20})
    for project in "ABC":
        await live.supply(project, 2020, 100)
    order = await live.buy(await live.account("Ada"), 20 * TONNE, "mix")
    await live.work()
    shown = await live.shown(order)
    assert tonnes_by_project(shown) == {"Project A": "10", "Project B": "6", "Project C": "4"}
    assert [project["offset_cost"] for project in shown["projects"]] == ["100.00", "60.00", "40.00"]
    assert (shown["projects"][0]["project_type"], shown["projects"][0]["project_slug"]) == ("Wind", "project-a")
    await live.check_invariants()


async def test_a_project_that_runs_short_is_covered_by_the_others_of_its_bundle(live: Shop) -> None:
    await live.sell("mix", {"A": 50, "B": 30, "C": 20})
    await live.supply("A", 2020, 2)
    await live.supply("B", 2021, 100)
    await live.supply("C", 2019, 6)
    order = await live.buy(await live.account("Ada"), 20 * TONNE, "mix")
    await live.work()
    # A gives 2 of its 10; of the missing 8 the older C gives the 2 that it has left, and B the rest.
    shown = await live.shown(order)
    assert tonnes_by_project(shown) == {"Project A": "2", "Project B": "12", "Project C": "6"}
    check_projects_sum_to_lines(shown)
    await live.check_invariants()


async def test_what_an_order_shows_of_projects_sums_to_its_lines_to_the_gram_and_the_cent(live: Shop) -> None:
    await live.sell("mix", {"A": 3, "B": 3, "C": 1}, price="12.65")
    await live.sell("kg", {"K": 2, "L": 1}, granularity=KILOGRAM, price="250.01")
    for project in "ABCKL":
        await live.supply(project, 2020, 30, retired=True)
    order = await live.buy(await live.account("Ada"), 17_123_457, "mix", "kg")
    await live.work()
    shown = await live.shown(order)
    assert shown["status"] == "complete"
    assert [line["quantity"] for line in shown["bundles"]] == ["8.561729", "8.561728"]
    check_projects_sum_to_lines(shown)
    async with live.services.database.connection() as connection:
        events = await stored_events(connection, order.id)
    [payload] = [event.payload for event in events if event.event_type == "order.retiring"]
    assert b"Project A" in payload, "they are there as soon as supply is guaranteed"
    await live.check_invariants()


async def test_pre_retired_lots_complete_an_order_at_once(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    order = await live.buy(await live.account("Ada"), 2_300_000, "wind")
    await live.work()
    assert await live.statuses(order) == ["complete"]
    assert await live.work_list() == []
    # Two tonnes of its own, and a part of one that also serves others: all of it retired when the lot was.
    lines = (await live.certificate(order))["lines"]
    assert [(line["quantity"], line["serial_range"], line["shared"]) for line in lines] == [
        ("2", "live-A-1 101–102", None),
        ("0.3", "live-A-1 103", {"unit_quantity": "1", "share": "0.3"}),
    ]
    assert {(line["retired_on"], line["retirement_url"]) for line in lines} == {
        ("2025-05-06", "https://registry.example/r")
    }
    await live.check_invariants()


async def test_short_supply_then_supply(live: Shop, tmp_path: Path) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    ada, berta = await live.account("Ada"), await live.account("Berta")
    # 1 March: 8 of 10 t are sold. Then 7 t, 5 t and 6 t are asked for, in this order, and 2 t, which are there.
    orders: list[Order] = []
    for hour, (buyer, tonnes) in enumerate(((ada, 8), (ada, 7), (berta, 5), (ada, 6), (berta, 2)), 9):
        live.clock.turn_to(3, 1, hour)
        orders.append(await live.buy(buyer, tonnes * TONNE, "wind"))
        await live.work()
    assert await live.statuses(*orders) == ["complete", "paid", "paid", "paid", "complete"]
    assert (await live.shown(orders[1]))["projects"] == []
    assert (await live.shown(orders[1]))["bundles"][0]["insufficient_available_quantity"] is True
    # 5 March: 12 t arrive. First paid, first served: 7 t and 5 t; 6 t still wait.
    live.clock.turn_to(3, 5)
    file = tmp_path / "march.csv"
    file.write_text("\n".join(*live.lot_file("A", 2021, 12, retired=True).values()))
    url = live.services.database._url
    output_of("catalogue", "import-lots", "--mode", "live", str(file), database_url=url)
    await live.work()
    assert await live.statuses(*orders) == ["complete", "complete", "complete", "paid", "complete"]
    # The same file again brings nothing, and nothing is allocated for it.
    output_of("catalogue", "import-lots", "--mode", "live", str(file), database_url=url)
    await live.work()
    assert await live.statuses(orders[3]) == ["paid"]
    await live.check_invariants()
    # 6 March: enough for the last one.
    live.clock.turn_to(3, 6)
    await live.supply("A", 2022, 6)
    await live.work()
    assert await live.statuses(orders[3]) == ["retiring"]
    await live.check_invariants()


async def test_supply_goes_to_orders_by_time_of_payment_not_of_placing(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    ada = await live.account("Ada")
    placed = [await live.place(ada, TONNE, "wind") for _ in range(10)]
    paid = [await live.pay(placed[place]) for place in (6, 2, 9, 0, 7, 4, 1, 8, 3, 5)]
    live.clock.turn_to(3, 2)
    await live.work()
    async with live.services.database.connection() as connection:
        # Nor does it count in which order the rows happen to lie.
        for order in placed:
            await connection.execute("UPDATE orders SET metadata = metadata WHERE id = $1", order.id)
    await live.supply("A", 2020, 5, retired=True)
    await live.work()
    assert await live.statuses(*paid) == ["complete"] * 5 + ["paid"] * 5


async def test_a_backorder_is_retried_even_if_nothing_wakes_it(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    async with live.services.database.connection() as connection:
        due = await connection.fetchval("SELECT next_attempt_at FROM orders WHERE id = $1", order.id)
        await live.supply("A", 2020, 1, retired=True)
        await connection.execute("UPDATE orders SET next_attempt_at = $2 WHERE id = $1", order.id, due)
    await live.work()
    assert await live.statuses(order) == ["paid"]
    live.clock.turn_to(3, 1, 10)
    await live.work()
    assert await live.statuses(order) == ["complete"]


async def test_a_bundle_without_projects_waits_like_any_backorder(live: Shop) -> None:
    await live.sell("nothing", {})
    order = await live.buy(await live.account("Ada"), TONNE, "nothing")
    await live.work()
    assert await live.statuses(order) == ["paid"]
    # A project joins the bundle that has supply already.
    await live.sell("something", {"A": 1})
    await live.supply("A", 2020, 1, retired=True)
    await live.sell("nothing", {"A": 1})
    await live.work()
    assert await live.statuses(order) == ["complete"]
    await live.check_invariants()
