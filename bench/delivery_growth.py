"""Whether an event costs the same with a million stored events as with a hundred thousand, and no more memory."""

from dataclasses import dataclass
from statistics import median

from bench.checks import NotMeasured, require_durable
from bench.delivery_events import lengthen_stream
from bench.delivery_latency import EVENTS_PER_ORDER, place_singly
from bench.delivery_pace import Pace
from bench.delivery_scene import Scene
from bench.delivery_speed import require_received
from bench.report import Goal, Result
from bench.worker import Worker
from tonne.webhooks.invariants import INVARIANTS

GOAL = Goal(reach=1.3, at_most=True)
MEMORY_GOAL = Goal(reach=1.2, at_most=True)


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU is that of the worker and of its connections to the database."""

    backlog_cpu_us: float
    backlog_time_us: float
    single_cpu_us: float
    single_time_ms: float
    resident_mb: float


async def event_growth(scene: Scene, pace: Pace) -> list[Result]:
    """All events are in one stream, and one worker delivers throughout: what it keeps adds up."""
    # At least one order of this tenant, whose newest event is copied.
    await scene.fill(scene.stage.tenants[:1], EVENTS_PER_ORDER)
    async with scene.worker() as worker:
        small = await _probe(scene, worker, pace, pace.small_events)
        large = await _probe(scene, worker, pace, pace.large_events)
    return [
        Result("growth_backlog_cpu", large.backlog_cpu_us, "us/event", small.backlog_cpu_us, GOAL),
        Result("growth_backlog_time", large.backlog_time_us, "us/event", small.backlog_time_us, None),
        Result("growth_single_cpu", large.single_cpu_us, "us/event", small.single_cpu_us, GOAL),
        Result("growth_single_time", large.single_time_ms, "ms", small.single_time_ms, None),
        Result("growth_worker_memory", large.resident_mb, "MB", small.resident_mb, MEMORY_GOAL),
    ]


COUNT_EVENTS = "SELECT count(*) FROM events"


async def _probe(scene: Scene, worker: Worker, pace: Pace, stored: int) -> Cost:
    tenant = scene.stage.tenants[0]
    async with scene.stage.connection() as connection:
        missing = stored - pace.newest_events - await connection.fetchval(COUNT_EVENTS)
    await lengthen_stream(scene.stage, tenant, missing)
    async with scene.hooks([tenant]) as hooks:
        # The newest come after the registration, so that they are owed to the receiver.
        await lengthen_stream(scene.stage, tenant, pace.newest_events)
        await require_durable(scene.stage)
        await scene.wait_until_delivered(hooks)
        scene.receivers.forget()
        before_s = await worker.cpu_s()
        took_s = []
        for _ in range(pace.newest_rounds):
            started = await scene.send_again(hooks, last=pace.newest_events)
            took_s.append(await scene.wait_until_delivered(hooks) - started)
        between_s = await worker.cpu_s()
        require_received(scene, 1, pace.newest_events * pace.newest_rounds)
        await place_singly(scene, hooks[0], 5, pace.pause_s)
        before_singles_s = await worker.cpu_s()
        delays = await place_singly(scene, hooks[0], pace.single_orders, pace.pause_s)
        after_s = await worker.cpu_s()
        await _require_delivered(scene)
    return Cost(
        backlog_cpu_us=(between_s - before_s) / (pace.newest_events * pace.newest_rounds) * 1e6,
        backlog_time_us=median(took_s) / pace.newest_events * 1e6,
        single_cpu_us=(after_s - before_singles_s) / (pace.single_orders * EVENTS_PER_ORDER) * 1e6,
        single_time_ms=median(delay.after_answer_ms for delay in delays),
        resident_mb=worker.resident_mb,
    )


async def _require_delivered(scene: Scene) -> None:
    """Of the doctor's checks those about webhooks: all others would look at every event for ten times as long."""
    async with scene.stage.connection() as connection:
        for invariant in INVARIANTS:
            if found := await connection.fetch(invariant.sql):
                raise NotMeasured(f"The doctor finds that it is not true that {invariant.name}: {found[:3]}.")
