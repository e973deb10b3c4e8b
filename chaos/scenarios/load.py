"""Much to do, and little help: a backlog, receivers that hang or take their time, a worker that is asked to stop."""

import asyncio
import statistics
import time

from chaos.behaviours import answer_after, hang
from chaos.bystander import Bystander
from chaos.scenarios.scenario import Scenario
from chaos.scene import QUICK, Organisation, Scene
from chaos.volume import append_events

BACKLOG = 100_000
# A worker that goes on at once needs a third of it, on a machine that is busy with other things.
DRAINED_WITHIN_S = 60.0
ORGANISATIONS = 40
HANGING = 8
BURST = 40
ROUNDS = 3


async def backlog(scene: Scene) -> None:
    """The receiver was away, and comes back to all that has happened; others do not notice."""
    fired = scene.faults.announce("events in the backlog", BACKLOG)
    away = scene.faults.announce("attempts while the receiver was away")
    bystander = await Bystander(scene).open()
    worker = scene.start_worker()
    await bystander.before()
    before_mb = worker.resident_mb()
    organisation = await scene.open_organisation(5)
    receiver = await scene.receiver("returning")
    hook = await scene.register(organisation, receiver)
    receiver.shut()
    await append_events(scene, organisation.scopes, BACKLOG)
    failures = "SELECT failures, (SELECT count(*) FROM events WHERE organisation_id = $2) FROM webhooks WHERE id = $1"
    failed, waiting = (await scene.fetch(failures, hook.id, organisation.id))[0]
    scene.faults.counts["events in the backlog"] = waiting - 1
    fired()
    for _ in range(failed):
        away()
    await receiver.open()
    started = time.monotonic()
    await scene.call(organisation, "POST", f"/v1/webhooks/{hook.id}/retry-now")
    await bystander.compare()
    await scene.until_delivered(120)
    took_s = time.monotonic() - started
    scene.require(took_s <= DRAINED_WITHIN_S, f"the backlog took {took_s:.0f} s: the worker pauses with work to do")
    scene.note(f"{BACKLOG / took_s:.0f} events/s, worker grew by {worker.resident_mb() - before_mb:.0f} MB")


async def hanging_among_many(scene: Scene) -> None:
    """The same burst of events for many organisations, without and with others' receivers that hang."""
    hung = scene.faults.announce("hung", HANGING)
    bystander = await Bystander(scene).open()
    scene.start_worker()
    healthy = []
    for number in range(ORGANISATIONS):
        organisation = await scene.open_organisation(1)
        await scene.register(organisation, await scene.receiver(f"healthy-{number}"))
        healthy.append(organisation)
    await bystander.before()
    await _burst(scene, healthy)
    without_s = statistics.median([await _burst(scene, healthy) for _ in range(ROUNDS)])
    hanging = []
    for number in range(HANGING):
        organisation = await scene.open_organisation(1)
        hanging.append(await scene.receiver(f"hanging-{number}", hang(hung)))
        await scene.register(organisation, hanging[-1])
        await append_events(scene, organisation.scopes, 10)

    async def all_hang() -> bool:
        return all(receiver.exchanges for receiver in hanging)

    await scene.until(all_hang, "the receivers hang", 20)
    with_s = statistics.median([await _burst(scene, healthy) for _ in range(ROUNDS)])
    await bystander.compare()
    scene.note(f"a burst took {without_s:.2f} s without, {with_s:.2f} s with them")
    scene.require(with_s <= 1.5 * without_s + 0.3, "organisations were slowed by others' receivers that hang")
    for receiver in hanging:
        receiver.behaviour = answer_after(0)
        receiver.cut()
    await scene.until_delivered(30)


async def _burst(scene: Scene, organisations: list[Organisation]) -> float:
    """Seconds until all have what was appended for all of them at once."""
    for organisation in organisations:
        await append_events(scene, organisation.scopes, BURST)
    started = time.monotonic()
    ids = [organisation.id for organisation in organisations]

    async def all_delivered() -> bool:
        return not await scene.fetch(BEHIND, ids)

    await scene.until(all_delivered, "a burst is delivered", 30, every_s=0.02)
    return time.monotonic() - started


BEHIND = """
SELECT FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
WHERE organisation_id = ANY ($1) AND webhook.cursor_position < stream.last_position LIMIT 1
"""


async def slow_answers(scene: Scene) -> None:
    """In real time: an answer after 29 s counts, one after 31 s comes too late and the events go out again."""
    in_time = scene.faults.announce("answered after 29 s")
    too_late = scene.faults.announce("hung up on before the answer of 31 s")
    scene.start_worker()
    bystander = await Bystander(scene).open()
    await bystander.before()
    receivers = {}
    for seconds in (29, 31):
        organisation = await scene.open_organisation()
        receivers[seconds] = await scene.receiver(f"after-{seconds}", answer_after(seconds))
        await scene.register(organisation, receivers[seconds])
        await scene.place(organisation, 3)
    await bystander.compare()
    await asyncio.sleep(20)
    for receiver in receivers.values():
        receiver.behaviour = answer_after(0)
    await scene.until_delivered(30)
    first = receivers[29].exchanges[0]
    if first.status == 200 and (first.ended_s or 0) - first.arrived_s > 28:
        in_time()
    first = receivers[31].exchanges[0]
    took_s = (first.ended_s or 0) - first.arrived_s
    if first.status is None and 29 < took_s < 31:
        too_late()
    scene.require(took_s < 31, f"the sender waited {took_s:.1f} s for an answer")
    repeated = [e for e in receivers[29].exchanges[1:] if e.body_length == receivers[29].exchanges[0].body_length]
    scene.require(not repeated, "an answer after 29 s did not count")


async def asked_to_stop(scene: Scene) -> None:
    """SIGTERM with a request under way and much to do: it comes to its end and counts, and nothing else is begun."""
    fired = scene.faults.announce("SIGTERM with a request under way", 2)
    organisation = await scene.open_organisation()
    receiver = await scene.receiver("steady", answer_after(1.0))
    await scene.register(organisation, receiver)
    await append_events(scene, organisation.scopes, 1000)
    for _ in range(2):
        before = len(receiver.exchanges)
        worker = scene.start_worker()

        async def sends(before: int = before) -> bool:
            return len(receiver.exchanges) > before

        await scene.until(sends, "a request is under way", 20, every_s=0.01)
        worker.ask_to_stop()
        fired()
        code = await worker.ended(scene.timeout_s + 2)
        begun = len(receiver.exchanges) - before - 1
        scene.require(
            code == 0, f"a worker that was asked to stop had not ended {scene.timeout_s + 2:g} s later ({code})"
        )
        scene.require(begun == 0, f"a worker that was asked to stop began {begun} more requests")
        if code is None:
            worker.kill()
    settled = (await scene.fetch("SELECT count(*) FROM webhook_attempts WHERE acknowledged"))[0][0]
    scene.require(settled >= 2, "a request that was under way at SIGTERM was not settled")
    receiver.behaviour = answer_after(0)
    scene.start_worker()
    await scene.until_delivered(20)


_REAL_TIME = {"TONNE_WORKER_POLL_S": "0.2", "TONNE_WEBHOOK_TIMEOUT_S": "30", "TONNE_WEBHOOK_LEASE_S": "45"}
_LONG_TIMEOUT = {**QUICK, "TONNE_WEBHOOK_TIMEOUT_S": "20", "TONNE_WEBHOOK_LEASE_S": "25"}
# With the default pause between two looks for work: a backlog must not wait for it.
_PATIENT = {**QUICK, "TONNE_WORKER_POLL_S": "1"}
SCENARIOS = (
    Scenario("asked-to-stop", asked_to_stop),
    Scenario("slow-answers", slow_answers, within_s=90, settings=_REAL_TIME),
    Scenario("hanging-among-many", hanging_among_many, within_s=90, settings=_LONG_TIMEOUT),
    Scenario("backlog", backlog, within_s=180, settings=_PATIENT),
)
