"""While others do their worst, an honest tenant's reads and orders are served nearly as fast as before."""

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import Awaitable, Callable

from chaos.cluster import Cluster
from chaos.model import Organisation
from chaos.operations.visitors import HALF_BODY, connect_from, hostile_bodies_of_all_kinds
from chaos.scenario import scenario

FAMILY = "attack"
HONEST = 150
HONEST_EVERY_S = 0.05
ADDRESSES = 20
TENANT_CLIENTS = 10
HALF_SENT = 1000
# What the slowest of a hundred honest requests may take: so many times the quiet one, and so much more.
FACTOR, ALLOWANCE_S = 3.0, 0.05
_FORM = b"email=nobody%40example.com&password=" + b"x" * 150
ANONYMOUS = (
    b"GET /dashboard/sign-in HTTP/1.1\r\nHost: tonne\r\nConnection: close\r\n\r\n",
    b"GET /verify/7K2M-04QX-9ZTB-C3RD HTTP/1.1\r\nHost: tonne\r\nConnection: close\r\n\r\n",
    b"POST /dashboard/sign-in HTTP/1.1\r\nHost: tonne\r\nConnection: close\r\nContent-Type: "
    b"application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s" % (len(_FORM), _FORM),
    HALF_BODY,
)


@scenario("all-at-once", within_s=120.0, family=FAMILY)
async def all_at_once(cluster: Cluster) -> None:
    """One tenant sends the most expensive requests, 20 addresses open pages, sign in and send half bodies."""
    attacks = cluster.announce("requests of attackers", 200)
    honest, tenant = await cluster.open_organisation(1), await cluster.open_organisation(1)
    cluster.start_worker()
    await cluster.place(honest, 5)
    await cluster.place(tenant, 5)
    quiet = await _be_honest(cluster, honest)
    tasks = [
        asyncio.create_task(_repeat(attack, attacks))
        for attack in (
            *(_tenant_attack(cluster, tenant, number) for number in range(TENANT_CLIENTS)),
            *(_anonymous_attack(cluster.port, number) for number in range(ADDRESSES)),
        )
    ]
    try:
        await asyncio.sleep(1)
        busy = await _be_honest(cluster, honest)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for name, limit_s in ((name, FACTOR * _p99(quiet[name]) + ALLOWANCE_S) for name in quiet):
        said = f"{name}: p99 {_p99(quiet[name]) * 1000:.0f} ms quiet, {_p99(busy[name]) * 1000:.0f} ms under attack"
        cluster.notes.append(said)
        cluster.require(_p99(busy[name]) <= limit_s, f"{said}, more than {limit_s * 1000:.0f} ms")
    await cluster.until_delivered()


@scenario("half-sent-bodies", within_s=120.0, family=FAMILY)
async def half_sent_bodies(cluster: Cluster) -> None:
    """A thousand half-sent bodies from the address of an honest tenant: all of its reads and orders are answered."""
    opened = cluster.announce("half-sent bodies", HALF_SENT)
    honest = await cluster.open_organisation(1)
    cluster.start_worker()
    await cluster.place(honest, 5)
    writers = []
    try:
        for _ in range(HALF_SENT):
            _, writer = await connect_from(cluster.port, "127.0.0.1")
            writer.write(HALF_BODY)
            writers.append(writer)
            opened()
        latencies = await _be_honest(cluster, honest)
    finally:
        for writer in writers:
            writer.transport.abort()
    slowest_s = max(latencies["orders"] + latencies["reads"])
    cluster.notes.append(f"slowest of {2 * HONEST} requests: {slowest_s * 1000:.0f} ms")
    cluster.require(slowest_s < 5, f"with half-sent bodies a request took {slowest_s:.1f} s")
    await cluster.until_delivered()


async def _be_honest(cluster: Cluster, organisation: Organisation) -> dict[str, list[float]]:
    """Seconds of reads and orders at a moderate pace. Raises if one of them fails."""
    found: dict[str, list[float]] = {"reads": [], "orders": []}
    failed_before = cluster.failed_requests
    for _ in range(HONEST):
        started = time.monotonic()
        order_id = await cluster.place_one(organisation, organisation.scopes[0])
        placed = time.monotonic()
        await cluster.call(organisation, "GET", f"/v1/orders/{order_id}", account_id=organisation.scopes[0].account_id)
        found["orders"].append(placed - started)
        found["reads"].append(time.monotonic() - placed)
        await asyncio.sleep(HONEST_EVERY_S)
    cluster.require(cluster.failed_requests == failed_before, "an honest request failed")
    return found


def _tenant_attack(cluster: Cluster, tenant: Organisation, number: int) -> Callable[[int], Awaitable[None]]:
    headers = {"Authorization": f"Bearer {tenant.key}", "Content-Type": "application/json"}
    item = {"mass": {"amount": "1", "unit": "kg"}, "metadata": {f"k{each}": each for each in range(30)}}
    batch = json.dumps({"orders": [item] * 100}).encode()
    bodies = hostile_bodies_of_all_kinds()

    async def attack(at: int) -> None:
        kind = (at + number) % 3
        if kind == 0:
            await cluster.status_of("POST", "/v1/orders/batch", headers=headers, data=batch)
        elif kind == 1:
            body = bodies[at % len(bodies)]
            await cluster.status_of("POST", "/v1/orders/by-mass", headers=headers, data=body)
        else:
            await cluster.status_of("GET", "/v1/orders?limit=100", headers=headers)

    return attack


def _anonymous_attack(port: int, number: int) -> Callable[[int], Awaitable[None]]:
    async def attack(at: int) -> None:
        reader, writer = await connect_from(port, f"127.1.0.{number + 1}")
        try:
            writer.write(ANONYMOUS[(at + number) % len(ANONYMOUS)])
            async with asyncio.timeout(1):
                await reader.read()
        finally:
            writer.transport.abort()

    return attack


async def _repeat(attack: Callable[[int], Awaitable[None]], count: Callable[[], object]) -> None:
    at = 0
    while True:
        # Being refused, or sent away, is no failure of the attack.
        with contextlib.suppress(OSError, TimeoutError):
            await attack(at)
        count()
        at += 1
        # The attackers share the cores with the service: without a pause, they would only measure themselves.
        await asyncio.sleep(0.02)


def _p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[-1]
