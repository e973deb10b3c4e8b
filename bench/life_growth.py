"""Whether the life of an order costs the same with a million finished orders as with ten thousand."""

from dataclasses import dataclass
from statistics import median

from bench.checks import require_durable
from bench.life_fill import count_finished, fill_finished
from bench.life_pace import Pace
from bench.life_scene import Scene
from bench.report import Goal, Result

GOAL = Goal(reach=1.3, at_most=True)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one order. CPU is that of the worker and of its connections to the database."""

    cpu_us: float
    time_us: float


async def growth(scene: Scene, pace: Pace) -> list[Result]:
    # The first complete orders: the others are copies of one of them.
    keys = await scene.place(pace.probe_orders)
    async with scene.worker():
        await scene.live(keys)
    small = await _probe(scene, pace, pace.small_orders)
    large = await _probe(scene, pace, pace.large_orders)
    return [
        Result("growth_life_cpu", large.cpu_us, "us/order", small.cpu_us, GOAL),
        Result("growth_life_time", large.time_us, "us/order", small.time_us, None),
    ]


async def _probe(scene: Scene, pace: Pace, finished: int) -> Cost:
    await fill_finished(scene.stage, finished - await count_finished(scene.stage))
    keys = await scene.place(pace.probe_orders * (pace.probe_blocks + 1))
    await scene.stage.settle()
    await require_durable(scene.stage)
    blocks = [keys[start : start + pace.probe_orders] for start in range(0, len(keys), pace.probe_orders)]
    cpu_s: list[float] = []
    took_s: list[float] = []
    async with scene.worker() as worker:
        # The first block opens connections, fills caches and makes plans: what it costs does not count.
        await scene.live(blocks[0])
        for block in blocks[1:]:
            before_s = await worker.cpu_s()
            took_s.append(await scene.live(block))
            cpu_s.append(await worker.cpu_s() - before_s)
    return Cost(median(cpu_s) / pace.probe_orders * 1e6, median(took_s) / pace.probe_orders * 1e6)
