"""kill -9 of a worker at the four points of a delivery, each reached from outside: no hook in the product."""

import asyncio

from chaos.receivers import Call, Receiver, accept
from chaos.scenarios.scenario import Scenario
from chaos.scenarios.trap import WITHIN_S, Trap
from chaos.scene import QUICK, Hook, Organisation, Scene

KILLS = 4
# A killed worker leaves its lease to run out: a short one, so that its events soon go out again.
SETTINGS = {**QUICK, "TONNE_WEBHOOK_TIMEOUT_S": "1", "TONNE_WEBHOOK_LEASE_S": "1.5"}


async def _set_up(scene: Scene) -> tuple[Organisation, Receiver, Hook]:
    organisation = await scene.open_organisation()
    receiver = await scene.receiver("receiver")
    return organisation, receiver, await scene.register(organisation, receiver)


async def _finish(scene: Scene, organisation: Organisation, receiver: Receiver) -> None:
    receiver.behaviour = accept
    scene.start_worker()
    await scene.place(organisation, 10)
    await scene.until_delivered(20)


WAITING_FOR_EVENTS = """
SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'events'::regclass AND NOT granted)
   AND EXISTS (SELECT FROM webhooks WHERE lease_until > clock_timestamp())
"""
LOCK_EVENTS = "LOCK TABLE events IN ACCESS EXCLUSIVE MODE"


async def claimed_and_waiting(scene: Scene) -> None:
    """With the table of events locked by us, a worker comes as far as the claim and not one step further."""

    async def holds() -> bool:
        return bool((await scene.fetch(WAITING_FOR_EVENTS))[0][0])

    await scene.until(holds, "a worker has claimed", WITHIN_S, every_s=0.02)


async def after_the_claim(scene: Scene) -> None:
    fired = scene.faults.announce("killed after the claim", KILLS)
    organisation, receiver, _ = await _set_up(scene)
    for _ in range(KILLS):
        await scene.place(organisation, 10)
        before = len(receiver.exchanges)
        async with scene.holding(LOCK_EVENTS):
            worker = scene.start_worker()
            await claimed_and_waiting(scene)
            worker.kill()
            fired()
        scene.require(len(receiver.exchanges) == before, "a request went out although the worker was killed before")
    await _finish(scene, organisation, receiver)


async def after_the_bytes(scene: Scene) -> None:
    """The receiver has the whole request, and kills its sender instead of answering."""
    fired = scene.faults.announce("killed after the bytes went out", KILLS)
    organisation, receiver, _ = await _set_up(scene)

    async def kill(_: Call) -> None:
        scene.newest_worker.kill()
        fired()

    for _ in range(KILLS):
        await scene.place(organisation, 10)
        trap = Trap(kill)
        receiver.behaviour = trap.behave
        scene.start_worker()
        await trap.sprung()
    await _finish(scene, organisation, receiver)


ACKNOWLEDGED = "SELECT count(*) FROM webhook_attempts WHERE webhook_id = $1 AND acknowledged"


async def after_the_2xx(scene: Scene) -> None:
    """The answer and the kill race with the settling; only those that came before it count."""
    name = "killed after the 2xx, before the settling"
    fired = scene.faults.announce(name, KILLS)
    organisation, receiver, hook = await _set_up(scene)

    async def answer_and_kill(call: Call) -> None:
        call.answer(200)
        await asyncio.sleep(scene.rng.uniform(0, 0.002))
        scene.newest_worker.kill()

    tries = 0
    while scene.faults.counts[name] < KILLS and tries < 5 * KILLS:
        tries += 1
        settled = (await scene.fetch(ACKNOWLEDGED, hook.id))[0][0]
        await scene.place(organisation, 5)
        trap = Trap(answer_and_kill)
        receiver.behaviour = trap.behave
        scene.start_worker()
        await trap.sprung()
        await asyncio.sleep(0.1)  # a statement that is with the database already comes to its end
        if (await scene.fetch(ACKNOWLEDGED, hook.id))[0][0] == settled:
            fired()
    scene.note(f"{tries} tries")
    await _finish(scene, organisation, receiver)


SETTLING = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tonne' AND wait_event_type = 'Lock'"
LOCK_WEBHOOKS = "SELECT id FROM webhooks FOR UPDATE"
KINDS = ("acknowledged", "acknowledged, connection cut", "refused")


async def in_the_settling(scene: Scene) -> None:
    """We hold the webhook's row, so that the settling waits in the database. It then either goes through without the
    worker, or is rolled back with its connection; that of a refusal is rolled back, as its commit never comes."""
    counters = {kind: scene.faults.announce(f"killed while settling ({kind})", 2) for kind in KINDS}
    organisation, receiver, _ = await _set_up(scene)
    for kind in KINDS * 2:

        async def answer_and_kill(call: Call, kind: str = kind) -> None:
            async with scene.holding(LOCK_WEBHOOKS):
                call.answer(500 if kind == "refused" else 200)
                backend = await _settling_backend(scene)
                scene.newest_worker.kill()
                if kind.endswith("cut"):
                    await scene.fetch("SELECT pg_terminate_backend($1)", backend)
                counters[kind]()

        await scene.place(organisation, 10)
        trap = Trap(answer_and_kill)
        receiver.behaviour = trap.behave
        scene.start_worker()
        await trap.sprung()
    await _finish(scene, organisation, receiver)


async def _settling_backend(scene: Scene) -> int:
    found: list[int] = []

    async def holds() -> bool:
        found.extend(row["pid"] for row in await scene.fetch(SETTLING))
        return bool(found)

    await scene.until(holds, "the settling waits for the lock", WITHIN_S, every_s=0.02)
    return found[0]


SCENARIOS = (
    Scenario("kill-after-claim", after_the_claim, settings=SETTINGS),
    Scenario("kill-after-bytes", after_the_bytes, settings=SETTINGS),
    Scenario("kill-after-2xx", after_the_2xx, within_s=90, settings=SETTINGS),
    Scenario("kill-while-settling", in_the_settling, within_s=90, settings=SETTINGS),
)
