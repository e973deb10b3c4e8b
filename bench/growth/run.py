"""Whether everything costs the same with ten million orders on disk as with ten thousand."""

import contextlib
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bench.api import growth
from bench.disk.size import read_sizes
from bench.environment import Environment, open_environment
from bench.growth import probes
from bench.growth.old_orders import TABLES, add_old_orders
from bench.life.finished_orders import copy_finished
from bench.life.orders import Orders, store_cards
from bench.life.throughput import probe as probe_life
from bench.pace import QUICK_API, QUICK_DELIVERY, QUICK_LIFE, ApiPace, DeliveryPace, LifePace
from bench.report import Goal, NotMeasured, Report, Result
from tests.support.processes import ROOT

NAMES = ("requests", "delivery", "life", "doctor")
SMALL = 10_000
ORDERS = 10_000_000
# The newest orders have events, charges, parcels, shares and certificates.
MOST_COMPLETE = 1_000_000
SPARE = 1.3
GOAL = Goal(reach=1.3, at_most=True)
# The copies are of the last thirty days, and an hour older than what the run creates.
_PERIOD_MS = (30 * 24 - 1) * 3_600_000
# The unit, and the goals for CPU time and for time. The doctor mostly waits for the disk.
PER_UNIT = {"delivery": ("us/event", GOAL, None), "life": ("us/order", GOAL, None), "doctor": ("us/order", None, GOAL)}
PLACED_ORDER = "SELECT id FROM orders WHERE account_id = $1 AND status = 'placed' ORDER BY created_at, id LIMIT 1"


class PerUnit(NamedTuple):
    """CPU time and time per event or order."""

    cpu_us: float
    time_us: float


Costs = dict[str, growth.Cost] | PerUnit


@dataclass(frozen=True, slots=True)
class Paces:
    api: ApiPace
    delivery: DeliveryPace
    life: LifePace


async def run(
    names: AbstractSet[str], report: Report, *, quick: bool, orders: int = ORDERS, folder: Path | None = None
) -> None:
    paces = Paces(QUICK_API, QUICK_DELIVERY, QUICK_LIFE) if quick else Paces(ApiPace(), DeliveryPace(), LifePace())
    parent = folder or ROOT / "var"
    async with filled(parent, SMALL, complete=SMALL) as (environment, added):
        await environment.require_consistent()
        await _require_disk(environment, added, orders)
        small = {name: costs async for name, costs in _probe(environment, names, paces, SMALL, old=0)}
    complete = complete_of(orders)
    async with filled(parent, orders, complete=complete) as (environment, _):
        async for name, costs in _probe(environment, names, paces, orders, old=orders - complete):
            report.add(*_compare(name, small[name], costs))


def _compare(name: str, small: Costs, large: Costs) -> list[Result]:
    if isinstance(small, dict) and isinstance(large, dict):
        return growth.compare(small, large)
    assert isinstance(small, PerUnit)
    assert isinstance(large, PerUnit)
    unit, cpu_goal, time_goal = PER_UNIT[name]
    return [
        Result(f"growth_{name}_cpu", large.cpu_us, unit, small.cpu_us, cpu_goal),
        Result(f"growth_{name}_time", large.time_us, unit, small.time_us, time_goal),
    ]


def complete_of(orders: int) -> int:
    """How many of the orders are complete: the newest tenth, a million at most."""
    return min(MOST_COMPLETE, orders // 10)


@contextlib.asynccontextmanager
async def filled(
    parent: Path,
    orders: int,
    *,
    complete: int,
    of_one_tenant: bool = False,
    before_copies: Callable[[Environment], Awaitable[None]] | None = None,
) -> AsyncIterator[tuple[Environment, dict[str, int]]]:
    """A service with this many orders, and the bytes that they use, by table.

    Ten thousand belong to one tenant, or all of them. `before_copies` may change the two orders that are then copied.
    """
    started = time.monotonic()
    async with open_environment(parent) as environment:
        await store_cards(environment)
        placed = Orders(environment)
        # One complete and one cancelled order of the service: the others are copies of them.
        keys = await placed.place(1)
        async with placed.worker():
            await placed.complete(keys)
        await _cancel_one(environment)
        if before_copies is not None:
            await before_copies(environment)
        environment.copy_interval_ms = _PERIOD_MS // orders
        environment.copied = orders - complete
        await environment.vacuum()
        before = await _table_sizes(environment)
        one_tenant = replace(environment, tenants=environment.tenants[:1])
        await copy_finished(one_tenant if of_one_tenant or orders == SMALL else environment, complete, with_events=True)
        await add_old_orders(one_tenant if of_one_tenant else environment, orders - complete)
        if of_one_tenant:
            environment.server = one_tenant.server
        added = {name: size - before.get(name, 0) for name, size in (await _table_sizes(environment)).items()}
        took_s = time.monotonic() - started
        print(f"{orders:,} orders use {sum(added.values()) / 1e9:.2f} GB, made in {took_s:.0f} s.", file=sys.stderr)
        yield environment, added


async def _table_sizes(environment: Environment) -> dict[str, int]:
    async with environment.connection() as connection:
        return {name: size.total for name, size in (await read_sizes(connection)).items()}


async def _cancel_one(environment: Environment) -> None:
    """Cancel an order of the first tenant that is not on the first page: all orders there must have the same length."""
    placed = 0
    while placed < 2 * growth.PAGE_SIZE:
        requests = environment.create_requests(environment.tenants[:1])
        placed += environment.run_load(requests, connections=1, seconds=0.1).answered
    async with environment.connection() as connection:
        order_id = await connection.fetchval(PLACED_ORDER, environment.tenants[0].scope.account_id)
    probes.send(environment, "POST", f"/v1/orders/{order_id}/cancel", {})


# Bytes of a row of each status, with its header and its pointer in the page.
ROW_SIZES = """
SELECT status, avg(pg_column_size(orders.*))::integer + 4 AS bytes FROM orders
WHERE status IN ('complete', 'cancelled') GROUP BY status
"""


async def _require_disk(environment: Environment, sizes: Mapping[str, int], orders: int) -> None:
    async with environment.connection() as connection:
        rows = {row["status"]: row["bytes"] for row in await connection.fetch(ROW_SIZES)}
    needed = needed_bytes(sizes, orders, smaller=_on_page(rows["complete"]) - _on_page(rows["cancelled"]))
    free = shutil.disk_usage(environment.folder).free
    print(require_disk(needed, free, orders, environment.folder.parent), file=sys.stderr)


def _on_page(row_bytes: int) -> int:
    """The share of a row in a page of 8 KB. Rows do not cross pages."""
    return 8192 // (8168 // row_bytes)


def needed_bytes(sizes: Mapping[str, int], orders: int, *, smaller: int) -> int:
    """`sizes` are the bytes of ten thousand complete orders in all tables. Old orders are `smaller` by so many bytes.

    While old orders are added, the complete ones are on disk twice.
    """
    complete = complete_of(orders)
    basic = sum(sizes[table] for table in TABLES)
    return (orders * basic + complete * sum(sizes.values())) // SMALL - (orders - complete) * smaller


def require_disk(needed: int, free: int, orders: int, folder: Path) -> str:
    stated = f"{orders:,} orders need about {needed / 1e9:.1f} GB in {folder}, where {free / 1e9:.1f} GB are free."
    if free < needed * SPARE:
        raise NotMeasured(
            f"{stated} At least {SPARE} times as much as needed must be free, {needed * SPARE / 1e9:.1f} GB: choose "
            "another disk with --folder, or fewer orders with --orders."
        )
    return stated


async def _probe(
    environment: Environment, names: AbstractSet[str], paces: Paces, orders: int, *, old: int
) -> AsyncIterator[tuple[str, Costs]]:
    """The costs by name, one after the other: a long run shows what it has."""
    if "requests" in names:
        page = probes.publish_page(environment)
        reads = probes.read_requests(environment, orders, paces.api)
        yield "requests", await growth.probe(environment, paces.api, reads, {"sustainability_page": page})
    if "delivery" in names:
        yield "delivery", PerUnit(*await probes.probe_delivery(environment, paces.delivery))
    if "life" in names:
        yield "life", PerUnit(*await probe_life(Orders(environment), paces.life))
    if "doctor" in names:
        cpu_s, took_s = await probes.probe_doctor(environment, old)
        yield "doctor", PerUnit(cpu_s / orders * 1e6, took_s / orders * 1e6)
