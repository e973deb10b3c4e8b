"""Two and four workers on one webhook; one of two workers frozen for twice its lease, and resumed."""

import asyncio
from functools import partial

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.delivery.behaviours import Trap, fail_sometimes
from chaos.delivery.kills import LOCK_EVENTS, until_claimed
from chaos.receivers import Call, accept
from chaos.scenario import scenario
from tests.support.processes import Process

ORDERS = 150
FROZEN = {**SHORT_TIMES, "webhook_timeout_s": "1.5", "webhook_lease_s": "2.25"}


async def _share_webhook(cluster: Cluster, count: int) -> None:
    """All workers deliver one webhook, whose receiver is slow and fails at times: never two requests at once."""
    faults = [cluster.announce(f"sent by worker {number}", 2) for number in range(1, count + 1)]
    failing = fail_sometimes(cluster.rng, 0.1, cluster.announce("returned 500"))

    async def respond_slowly(call: Call) -> None:
        sender = cluster.sender_of(call.exchange.peer_port)
        faults[cluster.workers.index(sender)]()
        await asyncio.sleep(cluster.rng.uniform(0, 0.1))
        await failing(call)

    hook = await cluster.open_hook("receiver", respond_slowly, accounts=5)
    for _ in range(count):
        cluster.start_worker()

    async def all_took_part() -> bool:
        await cluster.place(hook.organisation, 5)
        return not cluster.missing_faults()

    await cluster.place(hook.organisation, ORDERS)
    await cluster.until(all_took_part, "every worker has sent something", 30)
    await cluster.until_delivered()


scenario("two-workers", quick=True)(partial(_share_webhook, count=2))
scenario("four-workers")(partial(_share_webhook, count=4))


@scenario("frozen-after-bytes", settings=FROZEN)
async def frozen_after_bytes(cluster: Cluster) -> None:
    """Frozen with a request in flight, with or without a response. Another worker takes over; the frozen one settles
    nothing afterwards."""
    cluster.overlaps_expected = True
    kinds = ("response sent", "no response")
    faults = {kind: cluster.announce(f"frozen with a request in flight, {kind}") for kind in kinds}
    took_over = cluster.announce("another worker took over", 2)
    hook = await cluster.open_hook("receiver")
    for _ in range(2):
        cluster.start_worker()
    for kind in kinds:
        frozen: list[Process] = []

        async def freeze(call: Call, kind: str = kind, frozen: list[Process] = frozen) -> None:
            frozen.append(cluster.sender_of(call.exchange.peer_port))
            frozen[0].freeze()
            faults[kind]()
            if kind == kinds[0]:
                call.respond(200)

        trap = Trap(freeze, then=accept)
        hook.receiver.behaviour = trap.behave
        await cluster.place(hook.organisation, 10)
        await trap.triggered()
        before = len(hook.receiver.exchanges)
        token, cursor = await _lease(cluster, hook.id)
        await asyncio.sleep(cluster.seconds("webhook_lease_s"))
        await cluster.place(hook.organisation, 10)
        await asyncio.sleep(cluster.seconds("webhook_lease_s"))
        took_over(len(hook.receiver.exchanges) > before and (await _lease(cluster, hook.id))[0] > token)
        frozen[0].resume()
        await cluster.place(hook.organisation, 10)
        await asyncio.sleep(0.5)
        await _require_settled_once(cluster, hook.id, cursor + 1)
    hook.receiver.behaviour = accept
    await cluster.until_delivered()


@scenario("frozen-after-claim", settings=FROZEN)
async def frozen_after_claim(cluster: Cluster) -> None:
    """Frozen with the webhook claimed and nothing sent. After resuming it may send what others have sent before."""
    cluster.overlaps_expected = True
    fired = cluster.announce("frozen after the claim")
    hook = await cluster.open_hook("receiver")
    await cluster.place(hook.organisation, 20)
    async with cluster.holding(LOCK_EVENTS):
        frozen = cluster.start_worker()
        await until_claimed(cluster)
        frozen.freeze()
        fired()
    token, _ = await _lease(cluster, hook.id)
    cluster.start_worker()
    await asyncio.sleep(2 * cluster.seconds("webhook_lease_s"))
    await cluster.place(hook.organisation, 20)
    await cluster.until_delivered()
    cluster.require((await _lease(cluster, hook.id))[0] > token, "no worker took over from the frozen one")
    before = len(hook.receiver.exchanges)
    frozen.resume()
    await asyncio.sleep(1.0)
    cluster.notes.append(f"{len(hook.receiver.exchanges) - before} stale requests after resuming")
    await _require_settled_once(cluster, hook.id, 1)
    await cluster.place(hook.organisation, 20)
    await cluster.until_delivered()


ATTEMPTS = "SELECT count(*) FROM webhook_attempts WHERE webhook_id = $1 AND $2 = ANY (positions)"


async def _require_settled_once(cluster: Cluster, hook_id: str, position: int) -> None:
    """By the worker that took over. The token of the frozen one is outdated, so its attempt is not recorded."""
    times = await cluster.fetchval(ATTEMPTS, hook_id, position)
    cluster.require(times == 1, f"an event that a frozen worker had claimed was settled {times} times")


async def _lease(cluster: Cluster, hook_id: str) -> tuple[int, int]:
    """The fencing token, which increases with every claim, and the cursor."""
    row = (await cluster.fetch("SELECT lease_token, cursor_position FROM webhooks WHERE id = $1", hook_id))[0]
    return row["lease_token"], row["cursor_position"]
