"""A receiver that refuses the events of one account: only that account waits."""

import asyncio
import time
from dataclasses import dataclass

from chaos.cluster import SHORT_TIMES, Cluster
from chaos.model import Hook, Organisation
from chaos.receivers import Call
from chaos.scenario import scenario

PARKED_WITHIN_S = 25.0
# In this time a receiver that refuses everything gets a few requests, because the pauses grow. Without the pauses it
# would get forty.
WATCHED_S = 2.0
MAX_REQUESTS_WATCHED = 15
# More events than the service reads at once.
MANY = 1_600


@dataclass(slots=True)
class Picky:
    """Refuses the events of one account, everything, or nothing."""

    account_id: str
    refuses: str = "account"
    delay_s: float = 0.0

    async def behave(self, call: Call) -> None:
        if self.refuses == "everything" or (self.refuses == "account" and self.account_id.encode() in call.body):
            call.respond(500, b"Refused")
            return
        await asyncio.sleep(self.delay_s)
        if not call.closed.is_set():
            call.respond(200)


async def _open_picky(cluster: Cluster, accounts: int = 3) -> tuple[Hook, Picky]:
    """The events of the first account are refused."""
    organisation = await cluster.open_organisation(accounts)
    picky = Picky(organisation.account_ids[0])
    return await cluster.register(organisation, await cluster.receiver("picky", picky.behave)), picky


async def _park(cluster: Cluster, workers: int = 1) -> tuple[Hook, Picky]:
    fired = cluster.announce("account parked")
    hook, picky = await _open_picky(cluster)
    for _ in range(workers):
        cluster.start_worker()
    await _place_for_all(cluster, hook.organisation, 3)
    parked = "SELECT EXISTS (SELECT FROM webhook_parked WHERE webhook_id = $1)"
    await cluster.until_true("the account is parked", parked, hook.id, within_s=PARKED_WITHIN_S)
    fired()
    return hook, picky


async def _place_for_all(cluster: Cluster, organisation: Organisation, times: int) -> None:
    for scope in organisation.scopes * times:
        await cluster.place_one(organisation, scope)


AT_THE_END = """
SELECT cursor_position = last_position FROM webhooks JOIN event_streams USING (organisation_id, mode) WHERE id = $1
"""


async def _until_others_delivered(cluster: Cluster, hook: Hook) -> None:
    await cluster.until_true("the events of the other accounts are delivered", AT_THE_END, hook.id)


@scenario("parked-account", quick=True)
async def parked_and_released(cluster: Cluster) -> None:
    """Meanwhile the filter excludes the account, and includes it again."""
    changed = cluster.announce("filter changed while parked", 2)
    hook, picky = await _park(cluster)
    await _place_for_all(cluster, hook.organisation, 3)
    await _until_others_delivered(cluster, hook)
    await cluster.change(hook, account_ids=hook.organisation.account_ids[1:])
    changed()
    await _place_for_all(cluster, hook.organisation, 2)
    await _until_others_delivered(cluster, hook)
    await cluster.change(hook, account_ids=[])
    changed()
    picky.refuses = "nothing"
    await _place_for_all(cluster, hook.organisation, 2)
    await cluster.until_delivered()


@scenario("parked-taken-slowly")
async def parked_and_accepted_slowly(cluster: Cluster) -> None:
    """The parked events are accepted slowly, while another worker waits for the lease to expire."""
    fired = cluster.announce("parked events accepted slowly")
    hook, picky = await _park(cluster, workers=2)
    for _ in range(20):
        await cluster.place_one(hook.organisation, hook.organisation.scopes[0])
    await _until_others_delivered(cluster, hook)
    picky.delay_s, picky.refuses = 0.7 * cluster.seconds("webhook_timeout_s"), "nothing"
    fired()
    await _place_for_all(cluster, hook.organisation, 2)
    await cluster.until_delivered(40)


@scenario("parked-with-many")
async def parked_with_many(cluster: Cluster) -> None:
    """However many events of the refused account follow each other: the events of others behind them are found."""
    fired = cluster.announce("account parked with many events")
    hook, picky = await _open_picky(cluster, accounts=2)
    refused, other = hook.organisation.scopes
    await cluster.append_events([refused], MANY)
    for _ in range(3):
        await cluster.place_one(hook.organisation, other)
    cluster.start_worker()
    await _until_others_delivered(cluster, hook)
    fired()
    picky.refuses = "nothing"
    await cluster.until_delivered()


@scenario("parked-rewound", settings={**SHORT_TIMES, "worker_poll_s": "0.05"})
async def parked_and_rewound(cluster: Cluster) -> None:
    """Rewound to before the refused event, while the receiver refuses everything: the pauses still apply."""
    fired = cluster.announce("rewound while parked")
    hook, picky = await _park(cluster)
    await _until_others_delivered(cluster, hook)
    accounts = hook.organisation.account_ids
    await cluster.change(hook, account_ids=accounts)
    picky.refuses = "everything"
    await cluster.rewind_to_first_event(hook)
    fired()
    before, started = len(hook.receiver.exchanges), time.monotonic()
    await asyncio.sleep(WATCHED_S)
    received = len(hook.receiver.exchanges) - before
    cluster.notes.append(f"{received} requests in {time.monotonic() - started:.0f} s of refusals")
    cluster.require(received <= MAX_REQUESTS_WATCHED, f"a receiver that refuses everything got {received} requests")
    # Change the filter again: events from now on follow the new one, not one from before the rewind.
    await cluster.change(hook, account_ids=accounts[1:])
    picky.refuses = "nothing"
    await _place_for_all(cluster, hook.organisation, 2)
    await cluster.until_delivered()
