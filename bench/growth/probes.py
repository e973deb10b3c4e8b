"""What the growth run measures at each size, beside the requests of `bench.api.growth`."""

import asyncio
import hashlib
import http.client
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from statistics import median

from bench.api.growth import reads_for
from bench.delivery.receivers import start_receivers
from bench.delivery.webhooks import Delivery
from bench.environment import OF_THE_LOG, Environment, cpu_s_by_process
from bench.growth.old_orders import tenant_of
from bench.load import PreparedRequest, get
from bench.pace import ApiPace, DeliveryPace
from bench.report import NotMeasured
from bench.tenants import MODE
from tests.support.processes import HOST
from tonne.apps.cli.operations.doctor import ALL_INVARIANTS
from tonne.channels.public_pages.model import page_path
from tonne.platform.db.database import Connection
from tonne.platform.db.invariant import FOR_CHECKS, AnyCheck, RowCheck, group_by_scan

SLUG = "bench-growth"
# Checks that take longer are shown while the doctor runs.
SLOW_S = 5.0
_PLACING_CONNECTIONS = 16


def read_requests(environment: Environment, total: int, pace: ApiPace) -> list[PreparedRequest]:
    """Reads of generated orders. Their keys are computed, not queried: a query would bring the rows into memory."""
    rng = random.Random(total)
    requests = []
    for _ in range(reads_for(pace)):
        # One of the `total` is the order that the others are copies of.
        number = rng.randint(1, total - 1)
        key = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()[:24]
        requests.append(get(f"/v1/orders/by-idempotency-key/{key}", tenant_of(environment, number).key))
    return requests


def publish_page(environment: Environment) -> PreparedRequest:
    """Publish the Sustainability page of the first tenant. Returns the request for it."""
    body = {"enabled": True, "slug": SLUG, "title": "Growth"}
    send(environment, "PUT", "/v1/sustainability-page", body)
    return get(page_path(MODE, SLUG))


def send(environment: Environment, method: str, path: str, body: object, status: int = 200) -> None:
    """A request of the first tenant, outside of all measurements."""
    connection = http.client.HTTPConnection(HOST, environment.port, timeout=30)
    headers = {"Authorization": f"Bearer {environment.tenants[0].key}", "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    if response.status != status:
        raise NotMeasured(f"{method} {path} returned {response.status}: {text}")


async def probe_delivery(environment: Environment, pace: DeliveryPace) -> tuple[float, float]:
    """CPU time of the worker and its database connections, and time, per event of a backlog of the first tenant."""
    delivery = Delivery(environment, [])
    tenants = environment.tenants[:1]
    async with environment.connection() as connection:
        # The worker must only deliver.
        await connection.execute("UPDATE accounts SET auto_advance = false")
    with start_receivers(1, delivery.ca_file) as delivery.receivers:
        async with delivery.hooks(tenants) as hooks:
            placed = 0
            while placed * 2 < pace.newest_events:
                requests = environment.create_requests(tenants)
                outcome = environment.run_load(requests, connections=_PLACING_CONNECTIONS, seconds=0.5)
                placed += outcome.answered
            await environment.require_durable()
            took_s, cpu_s = [], []
            async with delivery.worker() as worker:
                # The first delivery opens connections and makes plans. It does not count.
                await delivery.wait_until_delivered(hooks)
                for _ in range(pace.newest_rounds):
                    before_s = await worker.cpu_s()
                    started = await delivery.rewind(hooks, last=pace.newest_events)
                    took_s.append(await delivery.wait_until_delivered(hooks) - started)
                    cpu_s.append(await worker.cpu_s() - before_s)
    return median(cpu_s) / pace.newest_events * 1e6, median(took_s) / pace.newest_events * 1e6


async def _count(check: AnyCheck, connection: Connection) -> Mapping[str, int]:
    """The number of violations of each invariant that is violated."""
    if isinstance(check, RowCheck):
        return Counter([name async for name, _ in check.find(connection)])
    counted = f"SELECT invariant, count(*) AS found FROM ({check.sql}) AS violations GROUP BY invariant"
    rows = await connection.fetch(counted, *check.arguments())
    return {check.names[row["invariant"]]: row["found"] for row in rows}


async def probe_doctor(environment: Environment, old: int) -> tuple[float, float]:
    """CPU time of the database and of this process, and time, for all invariants of `tonne doctor`, two at a time.

    Violations are counted, not listed. Old orders have no events, so a check of events finds all of them or none; no
    check may find anything else.
    """
    waiting = iter(group_by_scan([each for each in ALL_INVARIANTS if each.name not in OF_THE_LOG]))
    wrong: dict[str, int] = {}
    started, own_s = time.perf_counter(), time.process_time()

    async def take_checks() -> float:
        async with environment.connection() as connection:
            for check in waiting:
                began = time.perf_counter()
                async with connection.transaction(readonly=True):
                    await connection.execute(FOR_CHECKS)
                    found = await _count(check, connection)
                took_s = time.perf_counter() - began
                if took_s > SLOW_S:
                    print(f"{took_s:7.1f} s  {', '.join(check.names)}", file=sys.stderr)
                wrong.update({name: number for name, number in found.items() if number != old})
            return sum(cpu_s_by_process([connection.get_server_pid()]).values())

    cpu_s = sum(await asyncio.gather(take_checks(), take_checks())) + time.process_time() - own_s
    took_s = time.perf_counter() - started
    if wrong:
        raise NotMeasured(f"The doctor found inconsistent data: {wrong}.")
    return cpu_s, took_s
