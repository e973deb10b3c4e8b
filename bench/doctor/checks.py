"""The time in which `tonne doctor` checks all data, per complete order."""

import sys
import time
from pathlib import Path

import psutil

from bench.doctor.deliveries import deliver_all
from bench.environment import Environment, open_environment
from bench.life.finished_orders import copy_finished
from bench.life.orders import Orders, store_cards
from bench.pace import DoctorPace
from bench.recount import log_copies, post_copies
from bench.report import Goal, NotMeasured, Result
from tonne.apps.cli.database import open_readers
from tonne.apps.cli.operations.doctor import examine_in_parallel

# On two cores.
LIMIT_US = 70.0
CORES = 2
GOAL = Goal(reach=1.0, at_most=True)
GROWTH_GOAL = Goal(reach=1.3, at_most=True)
# How many of the slowest statements are shown.
SHOWN = 8


async def doctor(pace: DoctorPace, orders: int, parent: Path) -> list[Result]:
    async with open_environment(parent) as environment:
        await store_cards(environment)
        await _complete_first(environment, pace.first_orders)
        small_time_us, small_cpu_us = await _probe(environment, pace.small_orders)
        time_us, cpu_us = await _probe(environment, orders)
    return [
        Result("doctor_time", time_us, "us/order", LIMIT_US, GOAL),
        Result("doctor_cpu", cpu_us, "us/order", CORES * LIMIT_US),
        Result("doctor_growth_time", time_us, "us/order", small_time_us),
        Result("doctor_growth_cpu", cpu_us, "us/order", small_cpu_us, GROWTH_GOAL),
    ]


async def _complete_first(environment: Environment, count: int) -> None:
    """Complete some orders: the others are copies of one of them."""
    orders = Orders(environment)
    keys = await orders.place(count)
    async with orders.worker():
        await orders.complete(keys)


async def _probe(environment: Environment, orders: int) -> tuple[float, float]:
    """Time, and CPU time of the database and of this process, per order."""
    await copy_finished(environment, orders, with_events=True)
    await log_copies(environment)
    await post_copies(environment)
    await deliver_all(environment)
    await environment.vacuum()
    before_s, started = await _cpu_s(environment), time.perf_counter()
    async with open_readers(environment.url) as readers:
        examination = await examine_in_parallel(readers)
        took_s = time.perf_counter() - started
        cpu_s = await _cpu_s(environment) - before_s
    if examination.breaches:
        shown = {name: places[:3] for name, places in examination.breaches.items()}
        raise NotMeasured(f"The doctor found inconsistent data: {shown}.")
    print(f"{orders:,} orders: {took_s:.1f} s, {cpu_s:.1f} s of CPU time. The slowest statements:", file=sys.stderr)
    for seconds, check in sorted(examination.timings, key=lambda timing: -timing[0])[:SHOWN]:
        print(f"{seconds:8.2f} s  {'; '.join(check.names)}", file=sys.stderr)
    return took_s / orders * 1e6, cpu_s / orders * 1e6


async def _cpu_s(environment: Environment) -> float:
    """CPU time so far of this process and of the database server, its processes that have ended included."""
    async with environment.connection() as connection:
        postmaster = psutil.Process(connection.get_server_pid()).parent()
    if postmaster is None:
        raise NotMeasured("The database server has stopped.")
    running_s = sum(sum(process.cpu_times()[:2]) for process in postmaster.children())
    return running_s + sum(postmaster.cpu_times()[:4]) + time.process_time()
