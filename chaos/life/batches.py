"""SIGKILL of the api while orders share transactions."""

import asyncio
from collections import Counter
from functools import partial

import aiohttp

from chaos.cluster import Cluster
from chaos.model import Organisation, Refused
from chaos.scenario import scenario
from tonne.platform.values.context import new_id

KILLS = 5
CLIENTS = 32
# Orders whose rows one transaction wrote. Nothing changes them later: their accounts wait for the test helpers.
BATCHES = "SELECT count(*) FROM (SELECT xmin FROM orders GROUP BY xmin HAVING count(*) > 1) AS batch"
EVENTS = "SELECT event_type, subject_id, position FROM events WHERE organisation_id = $1 ORDER BY position"
ORDERS = "SELECT id, metadata FROM orders WHERE organisation_id = $1"


class Clients:
    """Clients that send one order after the other, half of them without a key, and record every answer."""

    def __init__(self, cluster: Cluster, organisations: list[Organisation]) -> None:
        self._cluster = cluster
        self._organisations = organisations
        self._stopping = False
        # The ids of the orders that were confirmed, by the name that the request had in its metadata.
        self.confirmed: dict[str, str] = {}
        # Sent, and not answered yet.
        self.open: set[str] = set()
        # Requests without a key that got no answer: the order may exist or not, but not twice.
        self.unanswered: set[str] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                clients.create_task(self._send_orders(self._organisations[number % len(self._organisations)], number))

    def stop(self) -> None:
        self._stopping = True

    def has_confirmed(self, orders: int) -> bool:
        return len(self.confirmed) >= orders

    async def _send_orders(self, organisation: Organisation, number: int) -> None:
        while not self._stopping:
            name = new_id("name")
            body = {"mass": {"amount": "1", "unit": "t"}, "metadata": {"name": name}}
            await self._send(organisation, name, body | ({"idempotency_key": name} if number % 2 else {}))

    async def _send(self, organisation: Organisation, name: str, body: dict[str, object]) -> None:
        while True:
            was_sent = True
            self.open.add(name)
            try:
                order = await self._cluster.call(organisation, "POST", "/v1/orders/by-mass", body)
                self._cluster.require(order["metadata"] == {"name": name}, f"{name} got the answer of another request")
                self.confirmed[name] = order["id"]
            except aiohttp.ClientConnectorError:
                was_sent = False
            except (aiohttp.ClientError, TimeoutError, Refused):
                pass
            finally:
                self.open.discard(name)
            if name in self.confirmed:
                return
            await asyncio.sleep(0.1)
            if was_sent and "idempotency_key" not in body:
                self.unanswered.add(name)
                return


@scenario("killed-in-a-batch", within_s=120)
async def killed_in_a_batch(cluster: Cluster) -> None:
    """The database is frozen at a random moment under load, the api is killed, and the database goes on without it."""
    cluster.log_errors_expected = True
    killed = cluster.announce("api killed while requests waited for their batch", KILLS)
    shared = cluster.announce("transactions that several orders shared", 2 * KILLS)
    lost = cluster.announce("requests without an answer", KILLS)
    organisations = [await cluster.open_organisation(1) for _ in range(3)]
    clients = Clients(cluster, organisations)
    running = asyncio.create_task(clients.run())
    try:
        for _ in range(KILLS):
            enough = len(clients.confirmed) + 40
            await cluster.until(partial(clients.has_confirmed, enough), "orders are placed", 30)
            await asyncio.sleep(cluster.rng.uniform(0.0, 0.2))
            cluster.postgres.freeze()
            try:
                # Requests that the load has sent meanwhile reach the queue.
                await asyncio.sleep(0.05)
                killed(len(clients.open) > 1)
                assert cluster.api is not None
                cluster.api.kill()
            finally:
                cluster.postgres.resume()
            await cluster.start_api()
    finally:
        clients.stop()
        await running
    shared(await cluster.fetchval(BATCHES))
    lost(len(clients.unanswered))
    cluster.notes.append(f"{len(clients.confirmed)} orders, {len(clients.unanswered)} without an answer")
    stored: set[str] = set()
    for organisation in organisations:
        stored |= await _check(cluster, clients, organisation)
    missing = set(clients.confirmed.values()) - stored
    cluster.require(not missing, f"{len(missing)} orders were confirmed and are lost")


async def _check(cluster: Cluster, clients: Clients, organisation: Organisation) -> set[str]:
    """The ids of the stored orders: no request has two, and the events have no gaps and are next to each other."""
    rows = await cluster.fetch(ORDERS, organisation.id)
    names = {row["id"]: row["metadata"].split('"')[3] for row in rows}
    for name, times in Counter(names.values()).items():
        cluster.require(times == 1, f"{name} has {times} orders")
    for name, order_id in clients.confirmed.items():
        if names.get(order_id, name) != name:
            cluster.problems.append(f"{name} got the answer of {names[order_id]}")
    known = {*clients.confirmed, *clients.unanswered}
    cluster.require(set(names.values()) <= known, "an order exists that nobody requested")
    events = await cluster.fetch(EVENTS, organisation.id)
    cluster.require([row["position"] for row in events] == list(range(1, len(events) + 1)), "positions have gaps")
    kinds = [row["event_type"] for row in events]
    cluster.require(kinds == ["order.received", "order.placed"] * (len(events) // 2), "events are out of order")
    pairs = zip(events[::2], events[1::2], strict=False)
    cluster.require(all(a["subject_id"] == b["subject_id"] for a, b in pairs), "events of orders are mixed")
    cluster.require({row["subject_id"] for row in events} == set(names), "orders and events do not match")
    return set(names)
