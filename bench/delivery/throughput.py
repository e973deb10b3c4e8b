"""Events per second that reach their receivers, compared with what a bare client can do."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from statistics import median

from bench.copies import EVENTS_PER_ORDER, copy_orders
from bench.delivery.bare_client import Sent, post_all
from bench.delivery.different_orders import make_orders_differ
from bench.delivery.webhooks import RECEIVERS, Delivery, Hook
from bench.pace import DeliveryPace
from bench.report import Goal, NotMeasured, Result

GOAL = Goal(reach=0.40, aim=0.60)
CPU_GOAL = Goal(reach=3.2, aim=2.2, at_most=True)
HANGING_GOAL = Goal(reach=0.80)


async def deliver_one(delivery: Delivery, pace: DeliveryPace) -> list[Result]:
    """The backlog of one webhook."""
    tenants = delivery.environment.tenants[:1]
    async with delivery.hooks(tenants) as hooks:
        await copy_orders(delivery.environment, tenants, pace.backlog_events // EVENTS_PER_ORDER)
        await make_orders_differ(delivery.environment, tenants)
        return await _compare_with_bare(delivery, pace, "deliver_one", hooks, pace.backlog_events)


async def deliver_200(delivery: Delivery, pace: DeliveryPace, names: AbstractSet[str]) -> list[Result]:
    """The backlogs of four webhooks of each of fifty organisations; and the same while one receiver hangs."""
    tenants = delivery.environment.tenants
    results = []
    async with delivery.hooks([tenant for tenant in tenants for _ in range(RECEIVERS // len(tenants))]) as hooks:
        await copy_orders(delivery.environment, tenants, pace.events_each * len(tenants) // EVENTS_PER_ORDER)
        await make_orders_differ(delivery.environment, tenants)
        if "deliver_200" in names:
            results += await _compare_with_bare(delivery, pace, "deliver_200", hooks, pace.events_each)
        if "hanging" in names:
            results.append(await _with_one_hanging(delivery, pace, hooks))
    return results


async def _compare_with_bare(
    delivery: Delivery, pace: DeliveryPace, name: str, hooks: Sequence[Hook], events_each: int
) -> list[Result]:
    """Rate and CPU time per event, against a bare client that signs each body once; and the rate against none."""
    environment = delivery.environment
    await environment.require_durable()
    routes, events = [hook.route for hook in hooks], events_each * len(hooks)
    rates: list[float] = []
    cpu_s: list[float] = []
    signed: list[Sent] = []
    unsigned: list[Sent] = []
    delivery.reset()
    async with delivery.worker() as worker:
        # The first delivery opens connections and makes plans. It does not count.
        await delivery.wait_until_delivered(hooks)
        for _ in range(pace.rounds):
            for signs, sent in ((True, signed), (False, unsigned)):
                arguments = (environment.url, delivery.ca_file, routes, pace.bare_times)
                sent.append(environment.in_load_process(post_all, *arguments, signed=signs))
            before_s = await worker.cpu_s()
            started = await delivery.rewind(hooks)
            ended = await delivery.wait_until_delivered(hooks)
            cpu_s.append((await worker.cpu_s() - before_s) / events)
            rates.append(events / (ended - started))
    require_received(delivery, len(hooks), events_each * (1 + pace.rounds * (1 + 2 * pace.bare_times)))
    await environment.require_consistent()
    rate, bare_rate = median(rates), median(each.events / each.took_s for each in signed)
    bare_cpu_s = median(each.cpu_s / each.events for each in signed)
    unsigned_rate = median(each.events / each.took_s for each in unsigned)
    return [
        Result(name, rate, "events/s", bare_rate, GOAL),
        Result(f"{name}_cpu", median(cpu_s) * 1e6, "µs/event", bare_cpu_s * 1e6, CPU_GOAL),
        Result(f"{name}_unsigned", rate, "events/s", unsigned_rate),
    ]


async def _with_one_hanging(delivery: Delivery, pace: DeliveryPace, hooks: Sequence[Hook]) -> Result:
    others = hooks[1:]
    events = pace.events_each * len(others)
    with_hanging: list[float] = []
    without: list[float] = []
    delivery.reset()
    async with delivery.worker():
        await delivery.rewind(hooks)
        await delivery.wait_until_delivered(hooks)
        for _ in range(pace.rounds):
            for hangs, rates in ((False, without), (True, with_hanging)):
                if hangs:
                    delivery.receivers[0].hang()
                started = await delivery.rewind(hooks)
                rates.append(events / (await delivery.wait_until_delivered(others) - started))
                delivery.receivers[0].resume()
                await delivery.wait_until_delivered(hooks)
    require_received(delivery, len(hooks), pace.events_each * (1 + pace.rounds * 2))
    await delivery.environment.require_consistent()
    return Result("hanging", median(with_hanging), "events/s", median(without), HANGING_GOAL)


def require_received(delivery: Delivery, receivers: int, events_each: int) -> None:
    """Every receiver got exactly as many events as were sent to it."""
    for number, receiver in enumerate(delivery.receivers[:receivers]):
        if receiver.events != events_each:
            raise NotMeasured(f"Receiver {number} got {receiver.events} events instead of {events_each}.")
