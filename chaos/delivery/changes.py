"""A webhook is changed while a request is in flight: the receiver holds the request until the change is made."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.cluster import Cluster
from chaos.delivery.bystander import Bystander
from chaos.model import Hook
from chaos.receivers import Call
from chaos.scenario import scenario

QUIET_S = 1.0
OVERLAP_S = 4


@asynccontextmanager
async def _request_in_flight(cluster: Cluster, fault: str, name: str, only_accounts: int = 0) -> AsyncIterator[Hook]:
    """A new webhook with a request in flight. When the block ends, the receiver responds to it."""
    fired = cluster.announce(fault)
    arrived, release = asyncio.Event(), asyncio.Event()

    async def hold(call: Call) -> None:
        arrived.set()
        await release.wait()
        call.respond(200)

    organisation = await cluster.open_organisation()
    receiver = await cluster.receiver(name, hold)
    hook = await cluster.register(organisation, receiver, organisation.account_ids[:only_accounts])
    for scope in organisation.scopes:
        await cluster.append_events([scope], 6)
    async with asyncio.timeout(20):
        await arrived.wait()
    yield hook
    fired()
    release.set()


async def _rotated(cluster: Cluster) -> None:
    async with _request_in_flight(cluster, "secret rotated", "rotated") as hook:
        await cluster.rotate(hook, 0)
    await cluster.place(hook.organisation, 4)


async def _rotated_with_overlap(cluster: Cluster) -> None:
    async with _request_in_flight(cluster, "secret rotated with overlap", "overlapping") as hook:
        await cluster.rotate(hook, OVERLAP_S)
    ends_s = time.monotonic() + OVERLAP_S + 2
    while time.monotonic() < ends_s:
        await cluster.place(hook.organisation, 1)
        await asyncio.sleep(0.4)


async def _disabled(cluster: Cluster) -> None:
    async with _request_in_flight(cluster, "disabled", "disabled") as hook:
        await cluster.change(hook, enabled=False)
    await _require_no_more_requests(cluster, hook)
    await cluster.change(hook, enabled=True)


async def _deleted(cluster: Cluster) -> None:
    async with _request_in_flight(cluster, "deleted", "deleted") as hook:
        await cluster.call(hook.organisation, "DELETE", f"/v1/webhooks/{hook.id}")
        hook.removed = True
    await _require_no_more_requests(cluster, hook)


async def _moved(cluster: Cluster) -> None:
    """The acknowledgement of the old receiver is ignored: the new one gets everything that was in flight."""
    new = await cluster.receiver("moved-to")
    async with _request_in_flight(cluster, "url changed", "moved-from") as hook:
        await cluster.change(hook, url=new.url)
        hook.receivers.append(new)
    await _require_no_more_requests(cluster, hook)
    held = hook.receiver.exchanges[0].body_length
    first = new.exchanges[0].body_length if new.exchanges else 0
    cluster.require(first >= held, "the new address did not get what was in flight to the old one")


async def _narrowed(cluster: Cluster) -> None:
    async with _request_in_flight(cluster, "filter narrowed", "narrowed") as hook:
        accounts = hook.organisation.account_ids
        await cluster.change(hook, account_ids=accounts[:1])
        before = len(hook.receiver.exchanges)
    await cluster.place(hook.organisation, 10)
    await asyncio.sleep(QUIET_S)
    later = [hook.receiver.read(exchange)[1] for exchange in hook.receiver.exchanges[before:]]
    excluded = [account for account in accounts[1:] if any(account.encode() in body for body in later)]
    cluster.require(not excluded, "events of excluded accounts were sent after the filter was narrowed")
    cluster.require(bool(later), "nothing was sent after the filter was narrowed")


async def _widened(cluster: Cluster) -> None:
    async with _request_in_flight(cluster, "filter widened", "widened", only_accounts=1) as hook:
        await cluster.change(hook, account_ids=[])
    await cluster.place(hook.organisation, 10)


async def _rewound(cluster: Cluster) -> None:
    """The acknowledgement of the request in flight must not move the cursor past events to be sent again."""
    async with _request_in_flight(cluster, "rewound", "rewound") as hook:
        await cluster.rewind_to_first_event(hook)
    await cluster.place(hook.organisation, 4)


async def _require_no_more_requests(cluster: Cluster, hook: Hook) -> None:
    before = len(hook.receiver.exchanges)
    await cluster.place(hook.organisation, 4)
    await asyncio.sleep(QUIET_S)
    more = len(hook.receiver.exchanges) - before
    cluster.require(more == 0, f"receiver {hook.receiver.name} got {more} requests after it was no longer in use")


CHANGES = (_rotated, _rotated_with_overlap, _disabled, _deleted, _moved, _narrowed, _widened, _rewound)


@scenario("changed-under-way", quick=True)
async def changed_in_flight(cluster: Cluster) -> None:
    """Each change has its own organisation. All are made concurrently."""
    cluster.start_worker()
    bystander = await Bystander(cluster).open()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bystander.compare())
        for change in CHANGES:
            tasks.create_task(change(cluster))
    await cluster.until_delivered()
