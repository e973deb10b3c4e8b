"""How many events a second reach their receivers, against what a bare client could do at best."""

from collections.abc import Sequence
from statistics import median

from bench import delivery_bare
from bench.checks import NotMeasured, require_durable, require_sound
from bench.delivery_bare import Bare
from bench.delivery_pace import Pace
from bench.delivery_scene import RECEIVERS, Hook, Scene
from bench.report import Goal, Result

GOAL = Goal(reach=0.40, aim=0.60)
HANGING_GOAL = Goal(reach=0.80)


async def deliver_one(scene: Scene, pace: Pace) -> list[Result]:
    """A backlog of one webhook."""
    tenants = scene.stage.tenants[:1]
    async with scene.hooks(tenants) as hooks:
        await scene.fill(tenants, pace.backlog_events)
        return [await _against_bare(scene, pace, "deliver_one", hooks, pace.backlog_events)]


async def deliver_200(scene: Scene, pace: Pace, names: set[str]) -> list[Result]:
    """A backlog of four webhooks of each of fifty organisations; and again while one receiver hangs."""
    tenants = [tenant for tenant in scene.stage.tenants for _ in range(RECEIVERS // len(scene.stage.tenants))]
    results = []
    async with scene.hooks(tenants) as hooks:
        await scene.fill(scene.stage.tenants, pace.events_each * len(scene.stage.tenants))
        if "deliver_200" in names:
            results.append(await _against_bare(scene, pace, "deliver_200", hooks, pace.events_each))
        if "hanging" in names:
            results.append(await _with_one_hanging(scene, pace, hooks))
    return results


async def _against_bare(scene: Scene, pace: Pace, name: str, hooks: Sequence[Hook], events_each: int) -> Result:
    await require_durable(scene.stage)
    bare = Bare(scene.stage.url, scene.receivers.authority_file, [hook.route for hook in hooks], pace.bare_times)
    rates: list[float] = []
    limits: list[float] = []
    scene.receivers.forget()
    async with scene.worker():
        # The first delivery of all opens connections and makes plans: it does not count.
        await scene.wait_until_delivered(hooks)
        for _ in range(pace.rounds):
            limits.append(scene.stage.load_process.submit(delivery_bare.post_bare, bare).result())
            started = await scene.send_again(hooks)
            ended = await scene.wait_until_delivered(hooks)
            rates.append(events_each * len(hooks) / (ended - started))
    require_received(scene, len(hooks), events_each * (1 + pace.rounds * (1 + pace.bare_times)))
    await require_sound(scene.stage)
    return Result(name, median(rates), "events/s", median(limits), GOAL)


async def _with_one_hanging(scene: Scene, pace: Pace, hooks: Sequence[Hook]) -> Result:
    others = hooks[1:]
    events = pace.events_each * len(others)
    with_hanging: list[float] = []
    without: list[float] = []
    scene.receivers.forget()
    async with scene.worker():
        await scene.send_again(hooks)
        await scene.wait_until_delivered(hooks)
        for _ in range(pace.rounds):
            for hangs, rates in ((False, without), (True, with_hanging)):
                if hangs:
                    scene.receivers.hang(0)
                started = await scene.send_again(hooks)
                rates.append(events / (await scene.wait_until_delivered(others) - started))
                scene.receivers.resume()
                await scene.wait_until_delivered(hooks)
    require_received(scene, len(hooks), pace.events_each * (1 + pace.rounds * 2))
    await require_sound(scene.stage)
    return Result("hanging", median(with_hanging), "events/s", median(without), HANGING_GOAL)


def require_received(scene: Scene, receivers: int, events_each: int) -> None:
    """Every receiver got as many events as were sent to it: none is missing, and none came twice."""
    for number, tally in enumerate(scene.receivers.tallies()[:receivers]):
        if tally.events != events_each:
            raise NotMeasured(f"Receiver {number} got {tally.events} events instead of {events_each}.")
