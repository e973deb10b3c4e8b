"""Whether an event costs the same, and no more memory, with a million stored events as with a hundred thousand."""

from statistics import median

from bench.copies import EVENTS_PER_ORDER, copy_orders
from bench.delivery.latency import place_singly
from bench.delivery.throughput import require_received
from bench.delivery.webhooks import Delivery, lengthen_stream
from bench.environment import Worker
from bench.pace import DeliveryPace
from bench.report import Goal, NotMeasured, Result
from tonne.channels.webhooks.invariants import INVARIANTS

GOAL = Goal(reach=1.3, at_most=True)
# CPU time is that of the worker and its database connections.
MEASURES = {
    "growth_backlog_cpu": ("us/event", GOAL),
    "growth_backlog_time": ("us/event", None),
    "growth_single_cpu": ("us/event", GOAL),
    "growth_single_time": ("ms", None),
    "growth_worker_memory": ("MB", Goal(reach=1.2, at_most=True)),
}


async def event_growth(delivery: Delivery, pace: DeliveryPace) -> list[Result]:
    """All events are in one stream. One worker delivers throughout, so that a leak of memory would show."""
    # At least one order of this tenant, whose newest event is copied.
    await copy_orders(delivery.environment, delivery.environment.tenants[:1], 1)
    async with delivery.worker() as worker:
        small = await _probe(delivery, worker, pace, pace.small_events)
        large = await _probe(delivery, worker, pace, pace.large_events)
    return [Result(name, large[name], unit, small[name], goal) for name, (unit, goal) in MEASURES.items()]


async def _probe(delivery: Delivery, worker: Worker, pace: DeliveryPace, stored: int) -> dict[str, float]:
    environment = delivery.environment
    tenant = environment.tenants[0]
    async with environment.connection() as connection:
        missing = stored - pace.newest_events - await connection.fetchval("SELECT count(*) FROM events")
    await lengthen_stream(environment, tenant, missing)
    async with delivery.hooks([tenant]) as hooks:
        # The newest events are written after the registration, so that the webhook gets them.
        await lengthen_stream(environment, tenant, pace.newest_events)
        await environment.require_durable()
        await delivery.wait_until_delivered(hooks)
        delivery.reset()
        before_s = await worker.cpu_s()
        took_s = []
        for _ in range(pace.newest_rounds):
            started = await delivery.rewind(hooks, last=pace.newest_events)
            took_s.append(await delivery.wait_until_delivered(hooks) - started)
        between_s = await worker.cpu_s()
        require_received(delivery, 1, pace.newest_events * pace.newest_rounds)
        await place_singly(delivery, hooks[0], 5, pace.pause_s)
        before_singles_s = await worker.cpu_s()
        after_response_ms, _ = await place_singly(delivery, hooks[0], pace.single_orders, pace.pause_s)
        after_s = await worker.cpu_s()
        await _require_delivered(delivery)
    events = pace.newest_events * pace.newest_rounds
    return {
        "growth_backlog_cpu": (between_s - before_s) / events * 1e6,
        "growth_backlog_time": median(took_s) / pace.newest_events * 1e6,
        "growth_single_cpu": (after_s - before_singles_s) / (pace.single_orders * EVENTS_PER_ORDER) * 1e6,
        "growth_single_time": median(after_response_ms),
        "growth_worker_memory": worker.process.resident_mb,
    }


async def _require_delivered(delivery: Delivery) -> None:
    """Run only the invariants of webhooks: the others would scan all events, which takes ten times as long."""
    async with delivery.environment.connection() as connection:
        for invariant in INVARIANTS:
            if found := await connection.fetch(invariant.sql, *invariant.arguments()):
                raise NotMeasured(f"The doctor found a breach of '{invariant.name}': {found[:3]}.")
