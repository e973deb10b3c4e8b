"""While others do their worst, an honest tenant's reads and orders are served nearly as fast as before."""

import asyncio
import json
import statistics
import time
from urllib.parse import urlencode

from chaos.cluster import Cluster
from chaos.model import NotAsExpected, Organisation
from chaos.operations.attackers import TOKEN, request
from chaos.operations.visitors import HALF_BODY, connect_from
from chaos.scenario import scenario
from tests.support.people import PASSWORD, password_hash, sign_in_owner
from tests.support.processes import Process
from tests.support.world import TESTER
from tonne.selling.users.create_user import create_user

FAMILY = "attack"
HONEST = 300
HONEST_EVERY_S = 0.05
HALF_SENT = 3000
# What the slowest of a hundred honest requests may take: so many times the quiet one, and so much more.
FACTOR, ALLOWANCE_S = 3.0, 0.05
# People who sign in meanwhile, each once and from a network of their own.
PEOPLE, SIGN_IN_WITHIN_S = 5, 5.0


@scenario("all-at-once", within_s=240.0, family=FAMILY)
async def all_at_once(cluster: Cluster) -> None:
    """A tenant, one of its users with 60 tabs, and 20 anonymous addresses do their worst, all at once."""
    attacks = cluster.announce("requests of attackers", 200)
    honest, tenant = await cluster.open_organisation(1), await cluster.open_organisation(1)
    async with cluster.connection() as tx, tx.transaction():
        cookie = await sign_in_owner(tx, "owner@attackers.test", tenant.id)
        for number in range(PEOPLE):
            await create_user(tx, _email(number), "Ann Lee", password_hash=password_hash(), by=TESTER.now())
    cluster.start_worker()
    await cluster.place(honest, 5)
    await cluster.place(tenant, 5)
    quiet = await _be_honest(cluster, honest)
    arguments = (str(cluster.port), tenant.key, tenant.id, tenant.scopes[0].account_id, cookie)
    log = cluster.folder / "attackers.txt"
    attackers = Process("chaos.operations.attackers", *arguments, settings={}, log=log)
    cluster.supports.append(attackers)
    await asyncio.sleep(3)
    busy = await _be_honest(cluster, honest)
    signed_in = [await _sign_in(cluster.port, number) for number in range(PEOPLE)]
    await asyncio.to_thread(attackers.stop)
    cluster.notes.append(f"slowest of {PEOPLE} people to sign in: {max(signed_in) * 1000:.0f} ms")
    cluster.require(max(signed_in) <= SIGN_IN_WITHIN_S, f"to sign in took {max(signed_in):.1f} s")
    found = json.loads(log.read_text(encoding="utf-8"))
    attacks(sum(count for _, _, count in found))
    for who in ("tenant", "user", "strangers"):
        counts = ", ".join(f"{count} x {status or 'no answer'}" for each, status, count in found if each == who)
        cluster.notes.append(f"{who}: {counts}")
    for name, limit_s in ((name, FACTOR * _p99(quiet[name]) + ALLOWANCE_S) for name in quiet):
        said = f"{name}: p99 {_p99(quiet[name]) * 1000:.0f} ms quiet, {_p99(busy[name]) * 1000:.0f} ms under attack"
        cluster.notes.append(said)
        cluster.require(_p99(busy[name]) <= limit_s, f"{said}, more than {limit_s * 1000:.0f} ms")
    await cluster.until_delivered()


@scenario("half-sent-bodies", within_s=120.0, family=FAMILY)
async def half_sent_bodies(cluster: Cluster) -> None:
    """Thousands of half-sent bodies from the address of an honest tenant: all of its reads and orders are answered."""
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


def _email(number: int) -> str:
    return f"person{number}@honest.test"


async def _sign_in(port: int, number: int) -> float:
    """The seconds until the person is signed in."""
    form = urlencode({"form_token": TOKEN, "email": _email(number), "password": PASSWORD}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": f"tonne={TOKEN}"}
    started = time.monotonic()
    reader, writer = await connect_from(port, f"127.2.0.{number + 1}")
    try:
        async with asyncio.timeout(60):
            writer.write(request("POST", "/dashboard/sign-in", form, headers))
            answer = await reader.read()
    finally:
        writer.transport.abort()
    if not answer.startswith(b"HTTP/1.1 303"):
        raise NotAsExpected(f"a person could not sign in: {answer[:300]!r}")
    return time.monotonic() - started


def _p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[-1]
