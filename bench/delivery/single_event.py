"""What one event costs when it is delivered alone, to a receiver that is already connected."""

import asyncio
import time

from bench.delivery.latency import place_singly
from bench.delivery.webhooks import Delivery
from bench.pace import DeliveryPace
from bench.report import Goal, Result

LIMIT_MS = 1.5
GOAL = Goal(reach=1.0, at_most=True)
# A worker that finds nothing polls less and less often, so busy and idle times take turns.
BLOCKS = 6


async def single_event_cpu(delivery: Delivery, pace: DeliveryPace) -> list[Result]:
    """CPU time of the worker and its database connections per request, beyond that of an idle worker."""
    await delivery.environment.require_durable()
    async with delivery.hooks(delivery.environment.tenants[:1]) as hooks, delivery.worker() as worker:
        # Opens connections and makes plans.
        await place_singly(delivery, hooks[0], 20, pace.pause_s)
        used_s = idle_s = 0.0
        requests = 0
        for _ in range(BLOCKS):
            started, before_s = time.monotonic(), await worker.cpu_s()
            await place_singly(delivery, hooks[0], pace.cpu_orders // BLOCKS, pace.pause_s)
            took_s, after_s = time.monotonic() - started, await worker.cpu_s()
            requests += len(delivery.receivers[0].acknowledged)
            await asyncio.sleep(took_s)
            used_s += after_s - before_s
            idle_s += await worker.cpu_s() - after_s
        await delivery.environment.require_consistent()
    return [
        Result("single_event_cpu", (used_s - idle_s) / requests * 1000, "ms", LIMIT_MS, GOAL),
        Result("single_event_cpu_with_polls", used_s / requests * 1000, "ms", LIMIT_MS),
    ]
