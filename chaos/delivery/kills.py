"""SIGKILL of a worker at four points of a delivery. Each is reached from outside, without hooks in the product."""

import asyncio

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.delivery.behaviours import Trap
from chaos.model import Hook
from chaos.receivers import Call, accept
from chaos.scenario import scenario

KILLS = 4
# A short lease: it must expire before another worker delivers the events of a killed one.
SHORT_LEASES = {**SHORT_TIMES, "webhook_timeout_s": "1", "webhook_lease_s": "1.5"}


async def _finish(cluster: Cluster, hook: Hook) -> None:
    hook.receiver.behaviour = accept
    cluster.start_worker()
    await cluster.place(hook.organisation, 10)
    await cluster.until_delivered()


async def _trap_new_worker(cluster: Cluster, hook: Hook, trap: Trap, orders: int = 10) -> None:
    await cluster.place(hook.organisation, orders)
    hook.receiver.behaviour = trap.behave
    cluster.start_worker()
    await trap.triggered()


LOCK_EVENTS = "LOCK TABLE events IN ACCESS EXCLUSIVE MODE"
WAITING_FOR_EVENTS = """
SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'events'::regclass AND NOT granted)
   AND EXISTS (SELECT FROM webhooks WHERE lease_until > clock_timestamp())
"""


async def until_claimed(cluster: Cluster) -> None:
    """While we hold a lock on the events, a worker claims a webhook and then waits."""
    await cluster.until_true("a worker has claimed", WAITING_FOR_EVENTS)


@scenario("kill-after-claim", settings=SHORT_LEASES, quick=True)
async def kill_after_claim(cluster: Cluster) -> None:
    fired = cluster.announce("killed after the claim", KILLS)
    hook = await cluster.open_hook("receiver")
    for _ in range(KILLS):
        await cluster.place(hook.organisation, 10)
        before = len(hook.receiver.exchanges)
        async with cluster.holding(LOCK_EVENTS):
            worker = cluster.start_worker()
            await until_claimed(cluster)
            worker.kill()
            fired()
        cluster.require(len(hook.receiver.exchanges) == before, "a worker sent a request before it was killed")
    await _finish(cluster, hook)


@scenario("kill-after-bytes", settings=SHORT_LEASES)
async def kill_after_bytes(cluster: Cluster) -> None:
    """The receiver has the whole request, and kills the sender instead of responding."""
    fired = cluster.announce("killed after the request was sent", KILLS)
    hook = await cluster.open_hook("receiver")

    async def kill(_: Call) -> None:
        cluster.workers[-1].kill()
        fired()

    for _ in range(KILLS):
        await _trap_new_worker(cluster, hook, Trap(kill))
    await _finish(cluster, hook)


ACKNOWLEDGED = "SELECT count(*) FROM webhook_attempts WHERE webhook_id = $1 AND acknowledged"


@scenario("kill-after-2xx", within_s=90, settings=SHORT_LEASES)
async def kill_after_2xx(cluster: Cluster) -> None:
    """Response and kill race with the settlement. Only kills that came before it count."""
    fired = cluster.announce("killed after the 2xx, before the settlement", KILLS)
    hook = await cluster.open_hook("receiver")

    async def respond_and_kill(call: Call) -> None:
        call.respond(200)
        await asyncio.sleep(cluster.rng.uniform(0, 0.002))
        cluster.workers[-1].kill()

    tries = 0
    while fired.count < KILLS and tries < 5 * KILLS:
        tries += 1
        settled = await cluster.fetchval(ACKNOWLEDGED, hook.id)
        await _trap_new_worker(cluster, hook, Trap(respond_and_kill), orders=5)
        await asyncio.sleep(0.1)  # a statement that has reached the database is still executed
        fired(await cluster.fetchval(ACKNOWLEDGED, hook.id) == settled)
    cluster.notes.append(f"{tries} tries")
    await _finish(cluster, hook)


SETTLING = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tonne' AND wait_event_type = 'Lock'"
LOCK_WEBHOOKS = "SELECT id FROM webhooks FOR UPDATE"
KINDS = ("acknowledged", "acknowledged, connection cut", "refused")


@scenario("kill-while-settling", within_s=90, settings=SHORT_LEASES)
async def kill_while_settling(cluster: Cluster) -> None:
    """We lock the row of the webhook, so that the settlement waits in the database.

    It is then committed without the worker, or rolled back with its connection. The settlement of a refusal is always
    rolled back, because its commit is never sent.
    """
    faults = {kind: cluster.announce(f"killed while settling ({kind})", 2) for kind in KINDS}
    hook = await cluster.open_hook("receiver")
    for kind in KINDS * 2:

        async def respond_and_kill(call: Call, kind: str = kind) -> None:
            async with cluster.holding(LOCK_WEBHOOKS):
                call.respond(500 if kind == "refused" else 200)
                backend = await cluster.until_true("the settlement waits for the lock", SETTLING)
                cluster.workers[-1].kill()
                if kind.endswith("cut"):
                    await cluster.fetch("SELECT pg_terminate_backend($1)", backend)
                faults[kind]()

        await _trap_new_worker(cluster, hook, Trap(respond_and_kill))
    await _finish(cluster, hook)
