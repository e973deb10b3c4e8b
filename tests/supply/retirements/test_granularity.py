"""Units of a registry: fixed once credits are allocated, and printed so that no two parcels look the same."""

import asyncio

import pytest

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.world import TESTER
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.serials import serial_range
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.supply.stock.lots.import_lots import import_files

HEADS = "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams"


def project(granularity: int, name: str = "Project A") -> dict[FileKind, list[str]]:
    return {FileKind.PROJECTS: [HEADS, f"Isometric,A,{name},Kenya,Wind,ACM2,avoidance,{granularity}"]}


async def test_money_16_the_granularity_is_fixed_once_credits_are_allocated(live: Shop) -> None:
    await live.sell("mix", {"A": 1}, granularity=KILOGRAM)
    await live.supply("A", 2020, 10)
    # Nothing is allocated yet.
    await live.import_files(project(TONNE))
    await live.import_files(project(KILOGRAM))
    order = await live.buy(await live.account("Ada"), 3 * KILOGRAM, "mix")
    await live.work()
    with pytest.raises(SheetInvalid) as raised:
        await live.import_files(project(TONNE))
    (error,) = raised.value.errors
    assert str(error) == (
        f"projects.csv, line 2, column granularity_grams: tonnes of Isometric A are allocated to order {order.id} in "
        "units of 1000 g, so the unit cannot change: write 1000."
    )
    # Everything else may change.
    await live.import_files(project(KILOGRAM, "Another name"))
    await live.check_invariants()


async def test_money_16_an_allocation_that_waits_for_the_import_uses_the_new_granularity(live: Shop) -> None:
    await live.sell("mix", {"A": 1}, granularity=KILOGRAM)
    await live.supply("A", 2020, 10)
    order = await live.buy(await live.account("Ada"), 3 * KILOGRAM, "mix")
    files = {kind: SheetFile(kind, "\n".join(lines).encode()) for kind, lines in project(TONNE).items()}
    async with live.database.transaction() as tx:
        await import_files(tx, live.mode, files, by=TESTER.at(live.clock.now))
        allocation = asyncio.create_task(live.work())
        await live.until_waiting_for_lock()
    await allocation
    assert await live.statuses(order) == ["retiring"]
    (cut,) = await live.cuts()
    assert (cut.quantity_grams, cut.allocated_grams, cut.status) == (TONNE, 3 * KILOGRAM, "open")
    await live.check_invariants()


@pytest.mark.parametrize(
    ("start", "grams", "printed"),
    [
        (0, TONNE, "X 7"),
        (TONNE, 2 * TONNE, "X 8–9"),
        (0, KILOGRAM, "X 7 (kg 1–1)"),
        (TONNE - KILOGRAM, 2 * KILOGRAM, "X 7–8 (kg 1000–1)"),
        (0, 100, "X 7 (g 1–100)"),
        (100, 100, "X 7 (g 101–200)"),
        (999_900, 200, "X 7–8 (g 999901–100)"),
    ],
)
def test_money_22_parcels_below_a_kilogram_have_distinct_numbers(start: int, grams: int, printed: str) -> None:
    assert serial_range("X", 7, start, grams) == printed


async def test_money_22_certificates_and_work_list_print_grams(live: Shop) -> None:
    await live.sell("mix", {"A": 1}, granularity=KILOGRAM)
    await live.import_files(project(100))
    await live.supply("A", 2020, 10)
    ada = await live.account("Ada")
    orders = [await live.buy(ada, 100, "mix") for _ in range(2)]
    await live.work()
    tasks = await live.work_list()
    assert [task.kilograms for task in tasks] == [
        "from g 1 of 101 to g 100 of 101",
        "from g 101 of 101 to g 200 of 101",
    ]
    await live.confirm(*tasks)
    await live.work()
    ranges = [(await live.certificate(order))["lines"][0]["serial_range"] for order in orders]
    assert ranges == ["live-A-1 101 (g 1–100)", "live-A-1 101 (g 101–200)"]
    await live.check_invariants()
