"""Orders per second from placed to complete, and whether an order costs the same with a million finished orders."""

from statistics import median

from bench.life.finished_orders import copy_finished
from bench.life.orders import Orders
from bench.life.rewrite import rewrite, save_state, undo
from bench.pace import LifePace
from bench.report import Goal, Result

GOAL = Goal(reach=0.70)
GROWTH_GOAL = Goal(reach=1.3, at_most=True)


async def life(orders: Orders, pace: LifePace) -> list[Result]:
    """Every round completes the same orders. Afterwards they are placed again, and all that they wrote is removed."""
    environment = orders.environment
    placed = await orders.place(pace.warm_up_orders + pace.orders)
    warm_up, keys = placed[pace.orders :], placed[: pace.orders]
    rates: list[float] = []
    limits: list[float] = []
    copies: list[float] = []
    async with orders.worker(), environment.connection() as connection:
        await orders.complete(warm_up)
        async with save_state(connection):
            await environment.vacuum()
            await environment.require_durable()
            for _ in range(pace.rounds):
                rates.append(len(keys) / await orders.complete(keys))
                await environment.require_consistent()
                for by_copy, written in ((False, limits), (True, copies)):
                    written.append(environment.in_load_process(rewrite, environment.url, keys, by_copy=by_copy))
                    # The limit must have written the same rows as the worker.
                    await orders.require_complete(keys)
                    await environment.require_consistent()
                await undo(connection)
    return [
        Result("life", median(rates), "orders/s", median(limits), GOAL),
        Result("life_against_copy", median(rates), "orders/s", median(copies)),
    ]


async def growth(orders: Orders, pace: LifePace) -> list[Result]:
    # Complete the first orders: the others are copies of one of them.
    keys = await orders.place(pace.probe_orders)
    async with orders.worker():
        await orders.complete(keys)
    await copy_finished(orders.environment, pace.small_orders)
    small_cpu_us, small_time_us = await probe(orders, pace)
    await copy_finished(orders.environment, pace.large_orders)
    large_cpu_us, large_time_us = await probe(orders, pace)
    return [
        Result("growth_life_cpu", large_cpu_us, "us/order", small_cpu_us, GROWTH_GOAL),
        Result("growth_life_time", large_time_us, "us/order", small_time_us),
    ]


async def probe(orders: Orders, pace: LifePace) -> tuple[float, float]:
    """CPU time of the worker and its database connections, and time, per order."""
    environment = orders.environment
    keys = await orders.place(pace.probe_orders * (pace.probe_blocks + 1))
    await environment.vacuum()
    await environment.require_durable()
    blocks = [keys[start : start + pace.probe_orders] for start in range(0, len(keys), pace.probe_orders)]
    cpu_s: list[float] = []
    took_s: list[float] = []
    async with orders.worker() as worker:
        # The first block opens connections, fills caches and makes plans. It does not count.
        await orders.complete(blocks[0])
        for block in blocks[1:]:
            before_s = await worker.cpu_s()
            took_s.append(await orders.advance(block))
            cpu_s.append(await worker.cpu_s() - before_s)
            # Afterwards, because the worker is not idle while it has nothing to do.
            await orders.require_complete(block)
    return median(cpu_s) / pace.probe_orders * 1e6, median(took_s) / pace.probe_orders * 1e6
