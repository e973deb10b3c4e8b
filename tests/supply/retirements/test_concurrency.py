"""Concurrent workers, operators and imports: no gram is allocated twice, and there is no deadlock."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.command import output_of
from tonne.apps.wiring.app import Services
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.catalogue.sources import lock_sources
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, OrderStatus
from tonne.selling.orders.queue import claim_due
from tonne.supply.retirements.allocate_orders import allocate_orders
from tonne.supply.stock.supply_store import lock_lots

LOT_SUMS = """
SELECT sum(lot.quantity_grams) AS quantity, sum(lot.allocated_grams) AS allocated FROM lots lot
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.mode = $1 AND project.registry_project_id = ANY ($2::text[])
"""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the first worker would claim all orders."""
    monkeypatch.setattr("tonne.supply.retirements.allocate_orders.BATCH", 7)


async def work_at_once(shop: Shop, workers: int) -> None:
    """Run this many workers, each with its own services, from the same moment until none has anything to do."""
    meet = asyncio.Barrier(workers)

    async def work() -> None:
        services = Services(shop.services.database, shop.services.settings, clock=shop.clock)
        await meet.wait()
        while await services.allocate_orders.run_once():
            pass

    await asyncio.gather(*(work() for _ in range(workers)))


async def sums(shop: Shop, *projects: str) -> tuple[int, int]:
    """The total and the allocated grams of the lots of these projects."""
    async with shop.services.database.connection() as connection:
        row = await connection.fetchrow(LOT_SUMS, shop.mode, projects)
    assert row is not None
    return row["quantity"], row["allocated"]


async def statuses(shop: Shop, orders: list[Order]) -> Counter[str]:
    return Counter(await shop.statuses(*orders))


async def test_two_workers_and_one_lot(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 60)
    rng = random.Random(4)  # noqa: S311 - repeatable on purpose
    buyers = [await live.account(f"Buyer {number}") for number in range(3)]
    orders = [await live.buy(rng.choice(buyers), rng.randint(1, 3 * TONNE), "wind") for _ in range(40)]
    live.clock.turn_to(3, 2)
    await work_at_once(live, 2)
    found = await statuses(live, orders)
    assert found["retiring"] > 20, "most have found what they bought"
    assert found["retiring"] + found["paid"] == 40
    await live.check_invariants()
    quantity, allocated = await sums(live, "A")
    assert allocated <= quantity
    # The others wait for more, and get it.
    await live.supply("A", 2021, 100)
    await work_at_once(live, 2)
    assert await statuses(live, orders) == {"retiring": 40}
    await live.check_invariants()


async def test_two_hundred_buyers_for_the_last_hundred_tonnes(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2019, 60, retired=True)
    await live.supply("A", 2020, 40, retired=True)
    orders = [await live.buy(await live.account(f"Buyer {number}"), TONNE, "wind") for number in range(200)]
    live.clock.turn_to(3, 2)
    await work_at_once(live, 4)
    assert await statuses(live, orders) == {"complete": 100, "paid": 100}
    assert await sums(live, "A") == (100 * TONNE, 100 * TONNE)
    serials = [
        (await live.certificate(order))["lines"][0]["serial_range"] for order in orders if await done(live, order)
    ]
    assert len(set(serials)) == 100, "no serial is sold twice"
    await live.check_invariants()
    # A hundred more: exactly those who waited get them.
    await live.supply("A", 2021, 100, retired=True)
    await work_at_once(live, 4)
    assert await statuses(live, orders) == {"complete": 200}
    await live.check_invariants()


async def done(shop: Shop, order: Order) -> bool:
    return await shop.statuses(order) == ["complete"]


async def test_the_rest_of_a_unit_is_given_away_once(live: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lot has free grams, so that the workers compete only for the unit."""
    monkeypatch.setattr("tonne.supply.retirements.allocate_orders.BATCH", 1)
    await live.sell("wind", {"A": 1})
    await live.supply("A", 2020, 1, retired=True)
    orders = [await live.buy(await live.account("Ada"), 400_000, "wind")]
    await live.work()
    orders += [await live.buy(await live.account(f"Buyer {number}"), 100_000, "wind") for number in range(20)]
    live.clock.turn_to(3, 2)
    await work_at_once(live, 4)
    assert await statuses(live, orders) == {"complete": 7, "paid": 14}
    assert [cut.allocated_grams for cut in await live.cuts()] == [TONNE]
    await live.check_invariants()


async def test_workers_on_different_bundles_of_the_same_projects_never_lock_each_other_out(live: Shop) -> None:
    """Each bundle lists its projects in another order; workers lock lots in the order of their ids."""
    await live.sell("mix-0", {"A": 1, "B": 1, "C": 1, "D": 1})
    await live.sell("mix-1", {"D": 1, "C": 1, "B": 1, "A": 1})
    await live.sell("mix-2", {"C": 1, "A": 1, "D": 1, "B": 1})
    await live.sell("mix-3", {"B": 1, "D": 1, "A": 1, "C": 1})
    for project in "ABCD":
        await live.supply(project, 2020, 30)
        await live.supply(project, 2019, 30, retired=True)
    buyer = await live.account("Ada")
    orders = [await live.buy(buyer, 3_500_000, f"mix-{number % 4}") for number in range(56)]
    live.clock.turn_to(3, 2)
    await work_at_once(live, 4)
    assert sum((await statuses(live, orders)).values()) == 56
    assert (await statuses(live, orders))["paid"] < 3
    await live.check_invariants()


async def test_workers_closers_operator_and_imports_all_at_once(live: Shop) -> None:
    await live.sell("mix", {"A": 2, "B": 1})
    await live.sell("air", {"K": 1}, granularity=KILOGRAM)
    for project in "ABK":
        await live.supply(project, 2020, 20)
    rng = random.Random(11)  # noqa: S311 - repeatable on purpose
    buyers = [await live.account(f"Buyer {number}") for number in range(4)]
    orders = [
        await live.buy(rng.choice(buyers), rng.randint(1, 2 * TONNE), *rng.choice((("mix",), ("air",), ("mix", "air"))))
        for _ in range(60)
    ]
    live.clock.turn_to(3, 2)

    async def repeat(step: Callable[[], Awaitable[object]], times: int) -> None:
        for _ in range(times):
            await step()
            await asyncio.sleep(0)

    async def confirm() -> None:
        # Of two operators, the one with the older list may state another retirement of the same serials: it is refused
        # as a whole, and he exports the list again.
        try:
            await live.confirm(*await live.work_list())
        except SheetInvalid as error:
            if not all("says so: delete the line." in each.message for each in error.errors):
                raise

    async def deliver() -> None:
        await live.supply(rng.choice("ABK"), 2021, 10)

    async def close() -> None:
        live.clock.now = live.clock.now.replace(month=4 + live.clock.now.month % 8)
        await live.services.close_units.run_once()

    await asyncio.gather(
        work_at_once(live, 3), repeat(confirm, 12), repeat(confirm, 12), repeat(deliver, 6), repeat(close, 6)
    )
    await live.check_invariants()
    # When the dust has settled, everything is complete.
    for project in "ABK":
        await live.supply(project, 2022, 60)
    live.clock.now = live.clock.now.replace(year=2027)
    await live.work()
    live.clock.now = live.clock.now.replace(year=2028)
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    assert await statuses(live, orders) == {"complete": 60}
    await live.check_invariants()


async def test_an_import_that_changes_a_lot_and_a_worker_do_not_lock_each_other_out(live: Shop, tmp_path: Path) -> None:
    """The worker locks orders before lots; an import in the other order would deadlock with it."""
    await live.sell("wind", {"A": 1})
    lot = live.lot_file("A", 2020, 3)
    await live.import_files(lot)
    order = await live.buy(await live.account("Ada"), 5 * TONNE, "wind")
    await live.work()
    assert await live.statuses(order) == ["paid"]
    live.clock.turn_to(3, 2)
    file = tmp_path / "lots.csv"
    heads, line = lot[FileKind.LOTS]
    file.write_text(f"{heads}\n{line.replace(',2020,', ',2019,')}\n{line.replace('live-A-1', 'more')}\n")
    words = ("catalogue", "import-lots", "--mode", "live", str(file))
    async with live.services.database.transaction() as tx:
        keys = await claim_due(tx, OrderStatus.PAID, Mode.LIVE, live.clock.now, limit=1)
        importing = asyncio.create_task(asyncio.to_thread(output_of, *words, database_url=live.services.database._url))
        await live.until_waiting_for_lock()
        await allocate_orders(tx, await load_orders(tx, keys), live.services.settings, live.clock.now)
    assert "version" in await importing
    await live.work()
    assert await live.statuses(order) == ["retiring"], "and the order that was held meanwhile is woken all the same"
    assert {cut.vintage for cut in await live.cuts()} == {2019, 2020}
    await live.check_invariants()


async def test_an_import_that_changes_weights_and_a_lot_does_not_deadlock_with_a_worker(live: Shop) -> None:
    """Both lock the projects of a bundle before its lots."""
    await live.sell("wind", {"A": 1})
    heads, lot = live.lot_file("A", 2020, 3)[FileKind.LOTS]
    await live.import_files({FileKind.LOTS: [heads, lot]})
    order = await live.buy(await live.account("Ada"), 2 * TONNE, "wind")
    changes = {
        FileKind.BUNDLE_PROJECTS: ["bundle_slug,registry,registry_project_id,weight", "wind,Our Registry,A,2"],
        FileKind.LOTS: [heads, lot.replace(",2020,", ",2019,")],
    }
    async with live.database.transaction() as tx:
        keys = await claim_due(tx, OrderStatus.PAID, Mode.LIVE, live.clock.now, limit=1)
        await lock_sources(tx, live.mode, [live.bundle_id("wind")])
        importing = asyncio.create_task(live.import_files(changes))
        await live.until_waiting_for_lock()
        await allocate_orders(tx, await load_orders(tx, keys), live.services.settings, live.clock.now)
    with pytest.raises(SheetInvalid, match=f"allocated to order {order.id}"):
        await importing
    assert await live.statuses(order) == ["retiring"]
    await live.check_invariants()


async def test_an_import_says_that_a_lot_is_only_locked(live: Shop) -> None:
    """Nothing of it is allocated: a customer opens the payment page, or the worker looks for supply."""
    await live.sell("wind", {"A": 1})
    heads, lot = live.lot_file("A", 2020, 3)[FileKind.LOTS]
    await live.import_files({FileKind.LOTS: [heads, lot]})
    change = {FileKind.LOTS: [heads, lot.replace(",2020,", ",2019,")]}
    async with live.database.transaction() as tx:
        projects = await tx.fetch("SELECT project_id FROM lots")
        await lock_lots(tx, live.mode, [row["project_id"] for row in projects])
        with pytest.raises(SheetInvalid, match="is using this lot right now: import again in a moment"):
            await live.import_files(change)
    await live.import_files(change)
