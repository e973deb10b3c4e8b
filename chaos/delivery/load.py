"""A large backlog, receivers that hang or are slow, and a worker that receives SIGTERM."""

import asyncio
import statistics
import time

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.delivery.behaviours import hang, respond_after
from chaos.delivery.bystander import Bystander
from chaos.model import Organisation
from chaos.scenario import scenario

BACKLOG = 100_000
# A worker that does not pause needs a third of it on a busy machine.
DELIVERED_WITHIN_S = 60.0
ORGANISATIONS = 40
HANGING = 8
BURST = 40
ROUNDS = 3


@scenario("asked-to-stop", quick=True)
async def asked_to_stop(cluster: Cluster) -> None:
    """SIGTERM with a request in flight and a backlog: the request is completed and settled, and no other follows."""
    fired = cluster.announce("SIGTERM with a request in flight", 2)
    hook = await cluster.open_hook("steady", respond_after(1.0))
    exchanges = hook.receiver.exchanges
    await cluster.append_events(hook.organisation.scopes, 1000)
    for _ in range(2):
        before = len(exchanges)
        worker = cluster.start_worker()

        def sends(before: int = before) -> bool:
            return len(exchanges) > before

        await cluster.until(sends, "a request is in flight", every_s=0.01)
        worker.terminate()
        fired()
        within_s = cluster.seconds("webhook_timeout_s") + 2
        code = await asyncio.to_thread(worker.wait, within_s)
        cluster.require(code == 0, f"a worker did not stop within {within_s:g} s after SIGTERM ({code})")
        more = len(exchanges) - before - 1
        cluster.require(more == 0, f"a worker sent {more} more requests after SIGTERM")
        worker.kill()
    settled = await cluster.fetchval("SELECT count(*) FROM webhook_attempts WHERE acknowledged")
    cluster.require(settled >= 2, "a request that was in flight at SIGTERM was not settled")
    hook.receiver.behaviour = respond_after(0)
    cluster.start_worker()
    await cluster.until_delivered()


REAL_TIME = {"worker_poll_s": "0.2", "webhook_timeout_s": "30", "webhook_lease_s": "45"}


@scenario("slow-answers", within_s=90, settings=REAL_TIME)
async def slow_responses(cluster: Cluster) -> None:
    """In real time: a response after 29 s counts; one after 31 s is too late, and the events are sent again."""
    in_time = cluster.announce("responded after 29 s")
    too_late = cluster.announce("timed out before the response after 31 s")
    cluster.start_worker()
    bystander = await Bystander(cluster).open()
    receivers = {}
    for seconds in (29, 31):
        hook = await cluster.open_hook(f"after-{seconds}", respond_after(seconds))
        receivers[seconds] = hook.receiver
        await cluster.place(hook.organisation, 3)
    await bystander.compare()
    await asyncio.sleep(20)
    for receiver in receivers.values():
        receiver.behaviour = respond_after(0)
    await cluster.until_delivered(30)
    first = receivers[29].exchanges[0]
    in_time(first.status == 200 and (first.ended_s or 0) - first.arrived_s > 28)
    repeated = [exchange for exchange in receivers[29].exchanges[1:] if exchange.body_length == first.body_length]
    cluster.require(not repeated, "a response after 29 s did not count")
    first = receivers[31].exchanges[0]
    took_s = (first.ended_s or 0) - first.arrived_s
    too_late(first.status is None and 29 < took_s < 31)
    cluster.require(took_s < 31, f"the worker waited {took_s:.1f} s for a response")


@scenario(
    "hanging-among-many",
    within_s=90,
    settings={**SHORT_TIMES, "webhook_timeout_s": "20", "webhook_lease_s": "30"},
)
async def hanging_among_many(cluster: Cluster) -> None:
    """The same burst of events for many organisations, without and with hanging receivers of others."""
    hung = cluster.announce("hung", HANGING)
    cluster.start_worker()
    hooks = [await cluster.open_hook(f"healthy-{number}", accounts=1) for number in range(ORGANISATIONS)]
    healthy = [hook.organisation for hook in hooks]
    bystander = await Bystander(cluster).open()
    await _burst(cluster, healthy)
    without_s = statistics.median([await _burst(cluster, healthy) for _ in range(ROUNDS)])
    hanging = []
    for number in range(HANGING):
        hook = await cluster.open_hook(f"hanging-{number}", hang(hung), accounts=1)
        hanging.append(hook.receiver)
        await cluster.append_events(hook.organisation.scopes, 10)
    await cluster.until(lambda: all(receiver.exchanges for receiver in hanging), "the receivers hang")
    with_s = statistics.median([await _burst(cluster, healthy) for _ in range(ROUNDS)])
    await bystander.compare()
    cluster.notes.append(f"a burst took {without_s:.2f} s without, {with_s:.2f} s with them")
    cluster.require(with_s <= 1.5 * without_s + 0.3, "hanging receivers slowed down other organisations")
    for receiver in hanging:
        receiver.behaviour = respond_after(0)
        receiver.drop_connections()
    await cluster.until_delivered(30)


BEHIND = """
SELECT NOT EXISTS (SELECT FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
                   WHERE organisation_id = ANY ($1) AND webhook.cursor_position < stream.last_position)
"""


async def _burst(cluster: Cluster, organisations: list[Organisation]) -> float:
    """Seconds until all organisations have their events, which were appended at once."""
    for organisation in organisations:
        await cluster.append_events(organisation.scopes, BURST)
    started = time.monotonic()
    ids = [organisation.id for organisation in organisations]
    await cluster.until_true("a burst is delivered", BEHIND, ids, within_s=30)
    return time.monotonic() - started


BACKLOG_STATE = """
SELECT failures, (SELECT count(*) FROM events WHERE organisation_id = $2) AS waiting FROM webhooks WHERE id = $1
"""


# With the default poll interval: delivering a backlog must not wait for it.
@scenario("backlog", within_s=180, settings={**SHORT_TIMES, "worker_poll_s": "1"})
async def backlog(cluster: Cluster) -> None:
    """A receiver was unreachable and then gets all events. Other organisations are not affected."""
    waiting = cluster.announce("events in the backlog", BACKLOG)
    failed = cluster.announce("attempts while the receiver was unreachable")
    worker = cluster.start_worker()
    bystander = await Bystander(cluster).open()
    before_mb = worker.resident_mb
    hook = await cluster.open_hook("returning", accounts=5)
    hook.receiver.shut()
    await cluster.append_events(hook.organisation.scopes, BACKLOG)
    state = (await cluster.fetch(BACKLOG_STATE, hook.id, hook.organisation.id))[0]
    waiting(state["waiting"])
    failed(state["failures"])
    await hook.receiver.open()
    started = time.monotonic()
    await cluster.call(hook.organisation, "POST", f"/v1/webhooks/{hook.id}/retry-now")
    await bystander.compare()
    await cluster.until_delivered(120)
    took_s = time.monotonic() - started
    cluster.require(took_s <= DELIVERED_WITHIN_S, f"the backlog took {took_s:.0f} s: the worker pauses with work to do")
    cluster.notes.append(f"{BACKLOG / took_s:.0f} events/s, worker grew by {worker.resident_mb - before_mb:.0f} MB")
