"""kill -9 of a worker at the four points of a delivery, each reached from outside: no hook in the product."""

import asyncio

from chaos.receivers import Call, Receiver, accept
from chaos.scenarios.scenario import Scenario
from chaos.scene import QUICK, Hook, Organisation, Scene, Trouble

KILLS = 4
# A killed worker leaves its lease to run out: a short one, so that its events soon go out again.
SETTINGS = {**QUICK, "TONNE_WEBHOOK_TIMEOUT_S": "1", "TONNE_WEBHOOK_LEASE_S": "1.5"}
ROUND_WITHIN_S = 15.0


async def _set_up(scene: Scene) -> tuple[Organisation, Receiver, Hook]:
    organisation = await scene.open_organisation()
    receiver = await scene.receiver("receiver")
    return organisation, receiver, await scene.register(organisation, receiver)


WAITING_FOR_EVENTS = """
SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'events'::regclass AND NOT granted)
   AND EXISTS (SELECT FROM webhooks WHERE lease_until > clock_timestamp())
"""


async def claimed_and_waiting(scene: Scene) -> None:
    """With the table of events locked by us, a worker comes as far as the claim and not one step further."""

    async def holds() -> bool:
        return bool((await scene.fetch(WAITING_FOR_EVENTS))[0][0])

    await scene.until(holds, "a worker has claimed", ROUND_WITHIN_S, every_s=0.02)


async def after_the_claim(scene: Scene) -> None:
    fired = scene.faults.announce("killed after the claim", KILLS)
    organisation, receiver, _ = await _set_up(scene)
    for _ in range(KILLS):
        await scene.place(organisation, 10)
        before = len(receiver.exchanges)
        async with scene.holding("LOCK TABLE events IN ACCESS EXCLUSIVE MODE"):
            worker = scene.start_worker()
            await claimed_and_waiting(scene)
            worker.kill()
            fired()
        scene.require(len(receiver.exchanges) == before, "a request went out although the worker was killed before")
    scene.start_worker()
    await scene.until_delivered(20)


async def after_the_bytes(scene: Scene) -> None:
    fired = scene.faults.announce("killed after the bytes went out", KILLS)
    organisation, receiver, _ = await _set_up(scene)
    for _ in range(KILLS):
        killed = asyncio.Event()

        async def kill_instead_of_answering(_: Call, killed: asyncio.Event = killed) -> None:
            if not killed.is_set():
                worker.kill()
                fired()
                killed.set()

        await scene.place(organisation, 10)
        receiver.behaviour = kill_instead_of_answering
        worker = scene.start_worker()
        await _within(killed, "a request arrives")
    receiver.behaviour = accept
    scene.start_worker()
    await scene.place(organisation, 10)
    await scene.until_delivered(20)


ACKNOWLEDGED = "SELECT count(*) FROM webhook_attempts WHERE webhook_id = $1 AND acknowledged"


async def after_the_2xx(scene: Scene) -> None:
    """The answer and the kill race with the settling; only those that came before it count."""
    fired = scene.faults.announce("killed after the 2xx, before the settling", KILLS)
    organisation, receiver, hook = await _set_up(scene)
    tries = 0
    while scene.faults.counts["killed after the 2xx, before the settling"] < KILLS and tries < 5 * KILLS:
        tries += 1
        killed = asyncio.Event()

        async def answer_and_kill(call: Call, killed: asyncio.Event = killed) -> None:
            if not killed.is_set():
                call.answer(200)
                await asyncio.sleep(scene.rng.uniform(0, 0.002))
                worker.kill()
                killed.set()

        settled = (await scene.fetch(ACKNOWLEDGED, hook.id))[0][0]
        receiver.behaviour = answer_and_kill
        await scene.place(organisation, 5)
        worker = scene.start_worker()
        await _within(killed, "a request arrives")
        await asyncio.sleep(0.1)  # a statement that is with the database already comes to its end
        if (await scene.fetch(ACKNOWLEDGED, hook.id))[0][0] == settled:
            fired()
    scene.note(f"{tries} tries")
    receiver.behaviour = accept
    scene.start_worker()
    await scene.until_delivered(20)


SETTLING = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tonne' AND wait_event_type = 'Lock'"
LOCK_WEBHOOK = "SELECT id FROM webhooks WHERE id = '{}' FOR UPDATE"


async def in_the_settling(scene: Scene) -> None:
    """We hold the webhook's row, so that the settling waits in the database. It then either goes through without the
    worker, or is rolled back with its connection; for a refusal it is rolled back as the commit never comes."""
    kinds = ("acknowledged", "acknowledged, connection cut", "refused")
    counters = {kind: scene.faults.announce(f"killed while settling ({kind})", 2) for kind in kinds}
    organisation, receiver, hook = await _set_up(scene)
    for kind in kinds * 2:
        killed = asyncio.Event()

        async def answer_and_kill_in_settling(call: Call, kind: str = kind, killed: asyncio.Event = killed) -> None:
            if killed.is_set():
                return
            async with scene.holding(LOCK_WEBHOOK.format(hook.id)):
                call.answer(500 if kind == "refused" else 200)
                backend = await _settling_backend(scene)
                worker.kill()
                if kind.endswith("cut"):
                    await scene.fetch("SELECT pg_terminate_backend($1)", backend)
                counters[kind]()
            killed.set()

        receiver.behaviour = answer_and_kill_in_settling
        await scene.place(organisation, 10)
        worker = scene.start_worker()
        await _within(killed, "a settling waits")
    receiver.behaviour = accept
    scene.start_worker()
    await scene.until_delivered(20)


async def _settling_backend(scene: Scene) -> int:
    found: list[int] = []

    async def holds() -> bool:
        found.extend(row["pid"] for row in await scene.fetch(SETTLING))
        return bool(found)

    await scene.until(holds, "the settling waits for the lock", ROUND_WITHIN_S, every_s=0.02)
    return found[0]


async def _within(event: asyncio.Event, what: str) -> None:
    try:
        async with asyncio.timeout(ROUND_WITHIN_S):
            await event.wait()
    except TimeoutError:
        raise Trouble(f"waited {ROUND_WITHIN_S:g} s in vain until {what}") from None


SCENARIOS = (
    Scenario("kill-after-claim", after_the_claim, settings=SETTINGS),
    Scenario("kill-after-bytes", after_the_bytes, settings=SETTINGS),
    Scenario("kill-after-2xx", after_the_2xx, within_s=90, settings=SETTINGS),
    Scenario("kill-while-settling", in_the_settling, within_s=90, settings=SETTINGS),
)
