"""CPU time of credits that a registry retires, compared with a person who retires the same from the work list."""

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
LOT_UNITS = 100
# An order gets its credits from several lots, so that it needs several requests to the registry.
ORDER_TONNES = 150
BY_REGISTRY = Goal(reach=1.3, at_most=True)
LINEAR = Goal(reach=1.5, at_most=True)
WITHIN = Goal(reach=1.0, at_most=True)
VALID = tuple(each.name for each in (*REGISTRY_INVARIANTS, *RETIREMENT_INVARIANTS))


class _Bench:
    def __init__(self, database: Database, world: World, services: Services, clock: ManualClock) -> None:
        self._database = database
        self.shops = {mode: Shop(services, world, clock, mode) for mode in Mode}

    async def cpu_s(self) -> float:
        """CPU time so far of this process and of the database server, its processes that have ended included."""
        async with self._database.connection() as connection:
            postmaster = psutil.Process(connection.get_server_pid()).parent()
        if postmaster is None:
            raise NotMeasured("The database server has stopped.")
        running_s = sum(sum(process.cpu_times()[:2]) for process in postmaster.children())
        return running_s + sum(postmaster.cpu_times()[:4]) + time.process_time()

    async def import_lots(self, mode: Mode, block: str, count: int) -> float:
        """Of one file. Microseconds of CPU time per lot."""
        lines = [
            "registry,registry_project_id,vintage,serial_block,first_number,last_number,status,retirement_url,retired_on"
        ]
        lines += [f"Our Registry,A,2020,{mode}-{block}-{lot},1,{LOT_UNITS},held,," for lot in range(count)]
        before_s = await self.cpu_s()
        await self.shops[mode].import_files({FileKind.LOTS: lines})
        return (await self.cpu_s() - before_s) / count * 1e6

    async def place(self, mode: Mode, count: int) -> list[Order]:
        shop = self.shops[mode]
        buyer = await shop.account("Ada")
        return [await shop.buy(buyer, ORDER_TONNES * TONNE, "bench") for _ in range(count)]

    async def complete(self, mode: Mode, orders: list[Order]) -> float:
        """Allocate, retire and complete. Microseconds of CPU time per order."""
        shop = self.shops[mode]
        before_s = await self.cpu_s()
        await shop.work()
        if mode is Mode.LIVE:
            await shop.confirm(*await shop.work_list())
            await shop.work()
        used_s = await self.cpu_s() - before_s
        left = "SELECT count(*) FROM orders WHERE mode = $1 AND status <> 'complete'"
        if left_count := await shop.fetchval(left, mode):
            raise NotMeasured(f"{left_count} {mode} orders are not complete.")
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
        settings = Settings(database_url=postgres.url(DATABASE), data_dir=str(folder), secret_key=SECRET_KEY)
        database = await Database(settings.database_url, settings).open()
        clock = ManualClock()
        services = Services(database, settings, clock)
        report.add(*await _measure(_Bench(database, world, services, clock), pace))
        await database.close()
    finally:
        await postgres.close()
        shutil.rmtree(folder, ignore_errors=True)


async def _measure(bench: _Bench, pace: RegistryPace) -> list[Result]:
    for mode in Mode:
        await bench.shops[mode].sell("bench", {"A": 1})
    # The first file is the limit: what a lot costs must not depend on how many there are.
    few_us = await bench.import_lots(Mode.TEST, "few", pace.few_lots)
    many_us = await bench.import_lots(Mode.TEST, "many", pace.lots)
    await bench.import_lots(Mode.LIVE, "many", pace.lots)
    costs: dict[Mode, list[float]] = {mode: [] for mode in Mode}
    for _ in range(pace.rounds):
        for mode in Mode:
            orders = await bench.place(mode, pace.orders)
            costs[mode].append(await bench.complete(mode, orders))
    # The first round plans the statements.
    by_person, by_registry = (sorted(costs[mode][1:])[len(costs[mode][1:]) // 2] for mode in (Mode.LIVE, Mode.TEST))
    rows = 2 * pace.rounds * pace.orders + 2 * pace.lots + pace.few_lots
    return [
        Result("registry_import", many_us, "us/lot", few_us, LINEAR),
        Result("registry_retire", by_registry, "us/order", by_person, BY_REGISTRY),
        Result("registry_doctor", await bench.check() / rows, "us/row", CORES * LIMIT_US, WITHIN),
    ]
