"""CPU time of credits that a registry retires: import, allocation, retirement and certificate."""

import shutil
import tempfile
import time
from collections.abc import Set as AbstractSet
from pathlib import Path

import psutil

from bench.doctor.checks import CORES, LIMIT_US
from bench.environment import SECRET_KEY
from bench.pace import QUICK_REGISTRY, RegistryPace
from bench.report import Goal, NotMeasured, Report, Result
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import ManualClock
from tests.support.postgres import PostgresServer
from tests.support.processes import ROOT
from tests.support.world import World, build_world
from tonne.apps.cli.operations.doctor import examine
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.orders.model import Order
from tonne.supply.registries.invariants import INVARIANTS as REGISTRY_INVARIANTS
from tonne.supply.retirements.invariants import INVARIANTS as RETIREMENT_INVARIANTS

NAMES = ("retire",)
DATABASE = "bench"
# Tonnes in a lot, and in an order.
LOT_TONNES = 100
ORDER_TONNES = (1, 2, 3)
CUSTOMERS = 20
# The life of an order before registries were asked: `growth_life_cpu` of docs/benchmark-results.md.
LIFE_US = 2860.0
AS_BEFORE = Goal(reach=1.3, at_most=True)
LINEAR = Goal(reach=1.5, at_most=True)
WITHIN = Goal(reach=1.0, at_most=True)
VALID = tuple(each.name for each in (*REGISTRY_INVARIANTS, *RETIREMENT_INVARIANTS))
PAGE = "https://registry.example/project"
# Of a registry that counts tonnes, and of one that counts kilograms.
CATALOGUE = {
    FileKind.PROJECTS: [
        "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams,registry_url",
        f"Verra,VCS191,Wind,China,Wind,ACM2,avoidance,1000000,{PAGE}/191",
        f"Isometric,F5X7,Bio-oil,United Kingdom,Biomass,BSTORE,removal,1000,{PAGE}/F5X7",
    ],
    FileKind.BUNDLES: [
        "slug,name,description,primary_image,unit_price,enabled,position",
        "bench,Bench,,,200.00,true,5",
    ],
    FileKind.BUNDLE_PROJECTS: [
        "bundle_slug,registry,registry_project_id,weight",
        "bench,Verra,VCS191,1",
        "bench,Isometric,F5X7,1",
    ],
}
# A statement of the doctor or of an import may take longer than one of a request.
STATEMENT_TIMEOUT_S = 600


def lot_line(number: int) -> str:
    """Of lots.csv, in turn of both registries."""
    start = number * LOT_TONNES
    if number % 2:
        last = (start + LOT_TONNES) * 1000
        return f"Isometric,F5X7,2024,ISO-1-BSTORE-GBR-F5X7-2024-{start * 1000 + 1}-{last},{LOT_TONNES},held,,"
    serial = f"{20_000 + number}-{start + 1}-{start + LOT_TONNES}-VCS-VCU-304-VER-CN-1-191-01012008-31122008-0"
    return f"Verra,VCS191,2008,{serial},{LOT_TONNES},held,,"


class _Bench:
    def __init__(self, database: Database, world: World, services: Services, clock: ManualClock) -> None:
        self._database = database
        self._shop = Shop(services, world, clock, Mode.TEST)
        self._lots = 0

    async def open(self) -> None:
        await self._shop.import_files(CATALOGUE)
        await self._shop.read_bundles()
        self._customers = [await self._shop.account(f"Customer {number}") for number in range(CUSTOMERS)]

    async def cpu_s(self) -> float:
        """CPU time so far of this process and of the database server, its processes that have ended included."""
        async with self._database.connection() as connection:
            postmaster = psutil.Process(connection.get_server_pid()).parent()
        if postmaster is None:
            raise NotMeasured("The database server has stopped.")
        running_s = sum(sum(process.cpu_times()[:2]) for process in postmaster.children())
        return running_s + sum(postmaster.cpu_times()[:4]) + time.process_time()

    async def import_lots(self, count: int) -> float:
        """Of one file. Microseconds of CPU time per lot."""
        head = "registry,registry_project_id,vintage,serial,quantity,status,retirement_url,retired_on"
        lines = [head, *(lot_line(self._lots + number) for number in range(count))]
        self._lots += count
        before_s = await self.cpu_s()
        await self._shop.import_files({FileKind.LOTS: lines})
        return (await self.cpu_s() - before_s) / count * 1e6

    async def place(self, count: int) -> list[Order]:
        """Placed and paid."""
        return [
            await self._shop.buy(
                self._customers[number % CUSTOMERS], ORDER_TONNES[number % len(ORDER_TONNES)] * TONNE, "bench"
            )
            for number in range(count)
        ]

    async def complete(self, orders: list[Order]) -> float:
        """Allocate, retire and complete. Microseconds of CPU time per order."""
        before_s = await self.cpu_s()
        await self._shop.work()
        used_s = await self.cpu_s() - before_s
        if left := await self._shop.fetchval("SELECT count(*) FROM orders WHERE status <> 'complete'"):
            raise NotMeasured(f"{left} orders are not complete.")
        return used_s / len(orders) * 1e6

    async def check(self) -> float:
        """Microseconds of CPU time of all checks of the doctor."""
        before_s = await self.cpu_s()
        async with self._database.transaction() as tx:
            found = await examine(tx)
        used_s = await self.cpu_s() - before_s
        if breaches := {name: places[:3] for name, places in found.items() if name in VALID}:
            raise NotMeasured(f"The doctor found inconsistent data: {breaches}.")
        return used_s * 1e6


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_REGISTRY if quick else RegistryPace()
    if "retire" not in names:
        return
    parent = ROOT / "var"
    parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    postgres = PostgresServer(folder / "postgres")
    try:
        await postgres.create(DATABASE)
        world = await postgres.fill(DATABASE, build_world)
        settings = Settings(
            database_url=postgres.url(DATABASE),
            data_dir=str(folder),
            secret_key=SECRET_KEY,
            statement_timeout_s=STATEMENT_TIMEOUT_S,
        )
        database = await Database(settings.database_url, settings).open()
        clock = ManualClock()
        services = Services(database, settings, clock)
        report.add(*await _measure(_Bench(database, world, services, clock), pace))
        await database.close()
    finally:
        await postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


async def _measure(bench: _Bench, pace: RegistryPace) -> list[Result]:
    await bench.open()
    # The first file is the limit: what a lot costs must not depend on how many there are.
    few_us = await bench.import_lots(pace.few_lots)
    many_us = await bench.import_lots(pace.lots)
    costs = [await bench.complete(await bench.place(pace.orders)) for _ in range(pace.rounds)]
    # The first round plans the statements. A tonne of the order is a hundredth of a lot.
    orders = sorted(costs[1:])[len(costs[1:]) // 2]
    imported = many_us / LOT_TONNES * sum(ORDER_TONNES) / len(ORDER_TONNES)
    rows = pace.rounds * pace.orders + pace.lots + pace.few_lots
    return [
        Result("registry_import", many_us, "us/lot", few_us, LINEAR),
        Result("registry_order", imported + orders, "us/order", LIFE_US, AS_BEFORE),
        Result("registry_doctor", await bench.check() / rows, "us/row", CORES * LIMIT_US, WITHIN),
    ]
