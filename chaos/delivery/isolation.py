"""Many receivers that hang, and many accounts that are refused: the events of others arrive without delay."""

import asyncio
import json
import statistics
import time

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.delivery.behaviours import hang
from chaos.receivers import Call, accept
from chaos.scenario import scenario

HANGING = 500
REFUSED = 50
HEALTHY = 20
ORDERS_EACH = 5
P99_WITHIN_S = 1.0


class _Arrivals:
    """When the events of orders arrive at healthy receivers."""

    def __init__(self) -> None:
        self.first_s: dict[str, float] = {}

    async def behave(self, call: Call) -> None:
        now_s = time.monotonic()
        for event in json.loads(call.body)["events"]:
            if event["event_type"] == "order.placed":
                self.first_s.setdefault(event["data"]["order"]["id"], now_s)
        call.respond(200)

    async def require_p99(self, cluster: Cluster, placed_s: dict[str, float], who: str) -> None:
        await cluster.until(lambda: placed_s.keys() <= self.first_s.keys(), "the events of others arrive", 30)
        latencies = [self.first_s[order_id] - moment for order_id, moment in placed_s.items()]
        p99_s = statistics.quantiles(latencies, n=100, method="inclusive")[-1]
        cluster.notes.append(f"p99 of others {p99_s * 1000:.0f} ms")
        cluster.require(p99_s < P99_WITHIN_S, f"with {who} the 99th percentile of others was {p99_s:.2f} s")


@scenario(
    "hanging-receivers-500",
    within_s=150,
    settings={**SHORT_TIMES, "webhook_timeout_s": "10", "webhook_lease_s": "20"},
)
async def many_hanging(cluster: Cluster) -> None:
    """Five hundred receivers hang, more than the worker has slots."""
    hung = cluster.announce("hung", HANGING)
    arrivals = _Arrivals()
    healthy = [await cluster.open_hook(f"healthy-{number}", arrivals.behave, accounts=1) for number in range(HEALTHY)]
    hanging = []
    for number in range(HANGING):
        hook = await cluster.open_hook(f"hanging-{number}", hang(hung), accounts=1)
        hanging.append(hook.receiver)
        await cluster.append_events(hook.organisation.scopes, 2)
    cluster.start_worker()
    for hook in healthy:
        await cluster.place_one(hook.organisation, hook.organisation.scopes[0])
    await cluster.until(lambda: hung.count >= hung.at_least, "the receivers hang", 30)
    placed_s: dict[str, float] = {}
    for _ in range(ORDERS_EACH):
        for hook in healthy:
            order_id = await cluster.place_one(hook.organisation, hook.organisation.scopes[0])
            placed_s[order_id] = time.monotonic()
            await asyncio.sleep(0.02)
    await arrivals.require_p99(cluster, placed_s, f"{HANGING} hanging receivers")
    for receiver in hanging:
        receiver.behaviour = accept
        receiver.drop_connections()
    await cluster.until_delivered(60)


PARKED = "SELECT count(*) = $2 FROM webhook_parked WHERE webhook_id = $1"


@scenario("refused-accounts-50", within_s=90)
async def many_refused(cluster: Cluster) -> None:
    """A receiver refuses the events of fifty accounts: all are parked, and the events of the others arrive."""
    parked = cluster.announce("accounts parked", REFUSED)
    organisation = await cluster.open_organisation(REFUSED + 5)
    refused, others = organisation.scopes[:REFUSED], organisation.scopes[REFUSED:]
    refused_ids = [scope.account_id.encode() for scope in refused]
    arrivals = _Arrivals()

    async def behave(call: Call) -> None:
        if any(account_id in call.body for account_id in refused_ids):
            call.respond(500, b"Refused")
        else:
            await arrivals.behave(call)

    receiver = await cluster.receiver("picky", behave)
    hook = await cluster.register(organisation, receiver)
    cluster.start_worker()
    mixed = organisation.scopes * 2
    cluster.rng.shuffle(mixed)
    await cluster.place_for(organisation, mixed)
    # An account is parked only if a later event is accepted, which proves that the receiver works.
    await cluster.place_for(organisation, others)
    await cluster.until_true("all are parked", PARKED, hook.id, REFUSED, within_s=45)
    parked(REFUSED)
    placed_s: dict[str, float] = {}
    for scope in others * ORDERS_EACH:
        order_id = await cluster.place_one(organisation, scope)
        placed_s[order_id] = time.monotonic()
        await asyncio.sleep(0.05)
    await arrivals.require_p99(cluster, placed_s, f"{REFUSED} refused accounts")
    receiver.behaviour = accept
    await cluster.until_delivered(60)
