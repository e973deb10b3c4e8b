"""Whole orders: from the request to the delivered `order.completed`, by one `tonne api` and one `tonne worker`."""

import time
from collections.abc import Set as AbstractSet
from statistics import median

from bench.delivery.webhooks import Delivery, Hook, open_delivery
from bench.environment import Worker
from bench.life.orders import EVENT_TYPES, LEFT_TO_DO, store_cards
from bench.pace import QUICK_WHOLE, WholePace
from bench.report import NotMeasured, Report, Result

NAMES = ("whole",)
CONNECTIONS = 32


async def run(_names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_WHOLE if quick else WholePace()
    async with open_delivery() as delivery:
        environment = delivery.environment
        await store_cards(environment)
        # Opens the connections of the api, so that later ones are the worker's. The limit places orders that wait.
        alone = [_place(delivery, pace)[1] for _ in range(pace.rounds)]
        async with delivery.hooks(environment.tenants) as hooks, delivery.worker() as worker:
            async with environment.connection() as connection:
                await connection.execute("UPDATE accounts SET auto_advance = true")
            # The first round opens connections and does not count. Its plans were made for empty tables: they read all
            # parcels for each share, until autovacuum has analysed the tables.
            await _round(delivery, worker, hooks, pace)
            await environment.vacuum()
            rounds = [await _round(delivery, worker, hooks, pace) for _ in range(pace.rounds)]
        await environment.require_consistent()
    rates, api_us, worker_us = map(median, zip(*rounds, strict=True))
    report.add(
        Result("whole", rates, "orders/s", median(alone)),
        Result("whole_api_cpu", api_us, "µs/order", api_us + worker_us),
        Result("whole_worker_cpu", worker_us, "µs/order", api_us + worker_us),
    )


def _place(delivery: Delivery, pace: WholePace) -> tuple[int, float]:
    """How many orders were placed, and how many per second."""
    outcome = delivery.environment.run_load(
        delivery.environment.create_requests(), connections=CONNECTIONS, seconds=pace.place_for_s
    )
    return outcome.answered, outcome.per_second


async def _round(delivery: Delivery, worker: Worker, hooks: list[Hook], pace: WholePace) -> tuple[float, float, float]:
    """Orders per second, and the CPU time per order of the api and of the worker, each with its connections."""
    environment = delivery.environment
    await environment.require_durable()
    delivery.reset()
    api_before_s, worker_before_s = await environment.server_cpu_s(), await worker.cpu_s()
    started = time.perf_counter()
    placed, _ = _place(delivery, pace)
    await environment.wait_while(LEFT_TO_DO)
    ended = await delivery.wait_until_delivered(hooks)
    api_s = await environment.server_cpu_s() - api_before_s
    worker_s = await worker.cpu_s() - worker_before_s
    received = sum(receiver.events for receiver in delivery.receivers)
    if received != placed * len(EVENT_TYPES):
        raise NotMeasured(f"{placed} orders were placed, but {received} events arrived.")
    return placed / (ended - started), api_s / placed * 1e6, worker_s / placed * 1e6
