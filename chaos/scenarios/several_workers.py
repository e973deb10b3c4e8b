"""Two and four workers on one webhook; one of two frozen for twice its lease, and woken."""

import asyncio

from chaos.behaviours import fail_sometimes
from chaos.processes import Process
from chaos.receivers import Call, accept
from chaos.scenarios.kills import LOCK_EVENTS, claimed_and_waiting
from chaos.scenarios.scenario import Scenario
from chaos.scenarios.trap import Trap
from chaos.scene import QUICK, Scene

ORDERS = 150


async def _share(scene: Scene, count: int) -> None:
    """All of them work on one webhook whose receiver dawdles and fails at times: never two requests at once."""
    counters = [scene.faults.announce(f"sent by worker {number}", 2) for number in range(1, count + 1)]
    failing = fail_sometimes(scene.rng, 0.1, scene.faults.announce("answered with 500"))

    async def dawdle(call: Call) -> None:
        sender = scene.sender_of(call.exchange.peer_port)
        counters[scene.workers.index(sender)]()
        await asyncio.sleep(scene.rng.uniform(0, 0.1))
        await failing(call)

    organisation = await scene.open_organisation(5)
    receiver = await scene.receiver("receiver", dawdle)
    await scene.register(organisation, receiver)
    for _ in range(count):
        scene.start_worker()

    async def all_took_part() -> bool:
        await scene.place(organisation, 5)
        return not scene.faults.missing()

    await scene.place(organisation, ORDERS)
    await scene.until(all_took_part, "every worker has sent something", 30)
    await scene.until_delivered(20)


async def two(scene: Scene) -> None:
    await _share(scene, 2)


async def four(scene: Scene) -> None:
    await _share(scene, 4)


async def frozen_after_the_bytes(scene: Scene) -> None:
    """Frozen with a request under way, answered in its sleep or not. Another takes over; it settles nothing more."""
    scene.overlaps_are_meant = True
    kinds = ("answered in its sleep", "not answered")
    counters = {kind: scene.faults.announce(f"frozen with a request under way, {kind}", 1) for kind in kinds}
    took_over = scene.faults.announce("another took over", 2)
    organisation = await scene.open_organisation()
    receiver = await scene.receiver("receiver")
    hook = await scene.register(organisation, receiver)
    for _ in range(2):
        scene.start_worker()
    for kind in kinds:
        sleepers: list[Process] = []

        async def freeze(call: Call, kind: str = kind, sleepers: list[Process] = sleepers) -> None:
            sleepers.append(scene.sender_of(call.exchange.peer_port))
            sleepers[0].freeze()
            counters[kind]()
            if kind == kinds[0]:
                call.answer(200)

        trap = Trap(freeze, then=accept)
        receiver.behaviour = trap.behave
        await scene.place(organisation, 10)
        await trap.sprung()
        before = len(receiver.exchanges)
        token, cursor = await _lease(scene, hook.id)
        await asyncio.sleep(scene.lease_s)
        await scene.place(organisation, 10)
        await asyncio.sleep(scene.lease_s)
        if len(receiver.exchanges) > before and (await _lease(scene, hook.id))[0] > token:
            took_over()
        sleepers[0].wake()
        await scene.place(organisation, 10)
        await asyncio.sleep(0.5)
        await _require_settled_once(scene, hook.id, cursor + 1)
    receiver.behaviour = accept
    await scene.until_delivered(20)


async def frozen_after_the_claim(scene: Scene) -> None:
    """Frozen with the webhook claimed and nothing sent. Woken, it may send what others have sent long since."""
    scene.overlaps_are_meant = True
    fired = scene.faults.announce("frozen after the claim", 1)
    organisation = await scene.open_organisation()
    receiver = await scene.receiver("receiver")
    hook = await scene.register(organisation, receiver)
    await scene.place(organisation, 20)
    async with scene.holding(LOCK_EVENTS):
        sleeper = scene.start_worker()
        await claimed_and_waiting(scene)
        sleeper.freeze()
        fired()
    token, _ = await _lease(scene, hook.id)
    scene.start_worker()
    await asyncio.sleep(2 * scene.lease_s)
    await scene.place(organisation, 20)
    await scene.until_delivered(20)
    scene.require((await _lease(scene, hook.id))[0] > token, "nobody took over from the frozen worker")
    before = len(receiver.exchanges)
    sleeper.wake()
    await asyncio.sleep(1.0)
    scene.note(f"{len(receiver.exchanges) - before} stale requests after waking")
    await _require_settled_once(scene, hook.id, 1)
    await scene.place(organisation, 20)
    await scene.until_delivered(20)


ATTEMPTS = "SELECT count(*) FROM webhook_attempts WHERE webhook_id = $1 AND $2 = ANY (positions)"


async def _require_settled_once(scene: Scene, hook_id: str, position: int) -> None:
    """By the one who took over. The sleeper's token is too old: its attempt leaves no trace, whatever came of it."""
    times = (await scene.fetch(ATTEMPTS, hook_id, position))[0][0]
    scene.require(times == 1, f"an event that a frozen worker had claimed was settled {times} times")


async def _lease(scene: Scene, hook_id: str) -> tuple[int, int]:
    """The token, which rises with every claim, and the cursor."""
    row = (await scene.fetch("SELECT lease_token, cursor_position FROM webhooks WHERE id = $1", hook_id))[0]
    return row["lease_token"], row["cursor_position"]


_FROZEN = {**QUICK, "TONNE_WEBHOOK_TIMEOUT_S": "1.5", "TONNE_WEBHOOK_LEASE_S": "2"}
SCENARIOS = (
    Scenario("two-workers", two),
    Scenario("four-workers", four),
    Scenario("frozen-after-bytes", frozen_after_the_bytes, settings=_FROZEN),
    Scenario("frozen-after-claim", frozen_after_the_claim, settings=_FROZEN),
)
