from collections.abc import Set as AbstractSet

from bench.api import growth, throughput
from bench.api.throughput import count_orders
from bench.copies import copy_orders
from bench.environment import open_environment
from bench.pace import QUICK_API, ApiPace
from bench.report import Goal, Report, Result
from bench.tenants import ORGANISATIONS

THROUGHPUT = {
    "create": throughput.create,
    "create_hot": throughput.create_hot,
    "create_alone": throughput.create_alone,
    "read": throughput.read_by_key,
    "list": throughput.list_100,
    "quote": throughput.quote_by_mass,
}
NAMES = (*THROUGHPUT, "growth", "memory")
MEMORY_LIMIT_MB = 200.0
# Every tenant has more than one page of 100 orders.
FULL_PAGES = 110 * ORGANISATIONS


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_API if quick else ApiPace()
    async with open_environment() as environment:
        # Create the first orders: the others are copies of one of them.
        environment.run_load(environment.create_requests(), connections=1, seconds=0.2)
        small: dict[str, growth.Cost] = {}
        if "growth" in names:
            # All of one tenant, so that its list has a thousand pages.
            await copy_orders(environment, environment.tenants[:1], pace.small_orders)
            await environment.require_consistent()
            small = await growth.probe(environment, pace)
        if not names.isdisjoint(THROUGHPUT):
            await copy_orders(environment, environment.tenants, FULL_PAGES)
        for name, measure in THROUGHPUT.items():
            if name in names:
                await environment.vacuum()
                report.add(*await measure(environment, pace))
        if "growth" in names:
            missing = pace.large_orders - await count_orders(environment)
            await copy_orders(environment, environment.tenants, missing)
            report.add(*growth.compare(small, await growth.probe(environment, pace)))
        if "memory" in names:
            resident_mb = environment.serving_process().memory_info().rss / 1e6
            report.add(Result("memory", resident_mb, "MB", MEMORY_LIMIT_MB, Goal(reach=1.0, at_most=True)))
