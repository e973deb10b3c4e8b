"""Visitors who send half of a request, or bodies that are expensive to refuse."""

import asyncio
import contextlib
import json
import socket
import statistics
import time

from chaos.cluster import Cluster
from chaos.model import Hook
from chaos.scenario import scenario
from tests.support.processes import HOST

HALF_OPEN = 2_000
# From many addresses, so that not only the limit per address protects the service.
ADDRESSES = 40
# Headers must arrive within 5 s, bodies within 10 s.
CLOSED_WITHIN_S = 20.0
# Far below what a busy event loop or an exhausted listener would cost, above the noise of a busy machine.
ANSWERED_WITHIN_S = 2.0
HALF_BODY = b"POST /offset/x HTTP/1.1\r\nHost: tonne\r\nContent-Length: 100\r\n\r\nx"
HALF_HEADERS = b"POST /offset/x HTTP/1.1\r\nHost: ton"
MAX_ANSWER_BYTES = 64 * 1024
HOSTILE_CLIENTS = 8
HOSTILE_ROUNDS = 3


@scenario("half-open-clients", quick=True)
async def half_open_clients(cluster: Cluster) -> None:
    """Two thousand clients that never finish a request: others are served, and the connections are closed."""
    opened = cluster.announce("half-open connections", HALF_OPEN)
    closed = cluster.announce("closed by the service", HALF_OPEN)
    hook = await cluster.open_hook("receiver")
    cluster.start_worker()
    clients: list[asyncio.StreamWriter] = []
    readers: list[asyncio.StreamReader] = []
    try:
        for number in range(HALF_OPEN):
            reader, writer = await connect_from(cluster.port, f"127.1.0.{number % ADDRESSES + 1}")
            writer.write(HALF_BODY if number % 2 else HALF_HEADERS)
            clients.append(writer)
            readers.append(reader)
            opened()
        await _require_served(cluster, hook, "half-open clients")
        ended = await asyncio.gather(*(_ends_within(reader, CLOSED_WITHIN_S) for reader in readers))
        closed(sum(ended))
        await _require_served(cluster, hook, "clients that were sent away")
    finally:
        for client in clients:
            client.transport.abort()
    await cluster.until_delivered()


async def connect_from(port: int, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    connection = socket.socket()
    connection.setblocking(False)
    connection.bind((address, 0))
    async with asyncio.timeout(10):
        await asyncio.get_running_loop().sock_connect(connection, (HOST, port))
        return await asyncio.open_connection(sock=connection)


async def _ends_within(reader: asyncio.StreamReader, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            with contextlib.suppress(ConnectionError):
                await reader.read()
            return True
    return False


async def _require_served(cluster: Cluster, hook: Hook, who: str) -> None:
    """Orders are placed without delay."""
    latencies = []
    for _ in range(20):
        started = time.monotonic()
        await cluster.place_one(hook.organisation, hook.organisation.scopes[0])
        latencies.append(time.monotonic() - started)
    slowest_s = max(latencies)
    cluster.notes.append(f"orders with {who}: median {statistics.median(latencies) * 1000:.0f} ms")
    cluster.require(slowest_s < ANSWERED_WITHIN_S, f"with {who} an order took {slowest_s:.1f} s")


def hostile_bodies_of_all_kinds() -> tuple[bytes, ...]:
    """Each nearly as large as a body may be."""
    doubled = ",".join(f'"k{number}":1' for number in range(14_000))
    unknown = ",".join(f'"unknown_{number}":1' for number in range(10_000))
    return (
        f"{{{doubled},{doubled[:60_000].rpartition(',')[0]}}}".encode(),
        f"{{{unknown}}}".encode(),
        b"[" * 200_000,
        b'{"mass":{"amount":"' + b"9" * 200_000 + b'","unit":"kg"}}',
        b'{"mass":{"amount":' + b"9" * 200_000 + b',"unit":"kg"}}',
        b'{"metadata":' + b'{"a":' * 40_000 + b"1" + b"}" * 40_000 + b"}",
        b'{"metadata":{"text":"' + b"\\u0000" * 40_000 + b'"}}',
        b'{"metadata":{"text":"\xff\xfe' + b"\xc3" * 200_000 + b'"}}',
        json.dumps({"bundle_selection": [{"bundle_id": "x" * 100}] * 1_900}).encode(),
    )


@scenario("hostile-bodies")
async def hostile_bodies(cluster: Cluster) -> None:
    """Bodies that are expensive to parse or to refuse, all the time: each is refused, and others are served."""
    bodies = hostile_bodies_of_all_kinds()
    refused = cluster.announce("hostile bodies refused", len(bodies) * HOSTILE_CLIENTS * HOSTILE_ROUNDS)
    hook = await cluster.open_hook("receiver")
    attacker = await cluster.open_organisation(1)
    cluster.start_worker()
    await cluster.place(hook.organisation, 5)
    headers = {"Authorization": f"Bearer {attacker.key}", "Content-Type": "application/json"}

    async def attack() -> None:
        for body in bodies * HOSTILE_ROUNDS:
            status, _, found = await cluster.status_of("POST", "/v1/orders/by-mass", headers=headers, data=body)
            size = int(found.get("Content-Length", 0))
            cluster.require(400 <= status < 500, f"a hostile body was answered with {status}: {body[:40]!r}")
            cluster.require(size <= MAX_ANSWER_BYTES, f"a hostile body was answered with {size} bytes: {body[:40]!r}")
            refused(400 <= status < 500)

    async with asyncio.TaskGroup() as attacks:
        for _ in range(HOSTILE_CLIENTS):
            attacks.create_task(attack())
        await _require_served(cluster, hook, "hostile bodies")
    await cluster.until_delivered()
