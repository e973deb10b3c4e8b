"""The database or the api fails under load: confirmed orders exist afterwards, once, and their events arrive."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator

from chaos.cluster import Cluster
from chaos.delivery.behaviours import fail_sometimes
from chaos.model import Organisation
from chaos.scenario import scenario
from tonne.platform.db.errors import LOG_OUTAGE_EVERY_S

OUTAGES = 3
ORGANISATIONS = 3


@contextlib.asynccontextmanager
async def _load(cluster: Cluster) -> AsyncIterator[None]:
    """Place orders all the time, by clients that repeat failed requests with the same key."""
    repeated = cluster.announce("order requests that failed and were sent again")
    failing = fail_sometimes(cluster.rng, 0.1, cluster.announce("returned 500"))
    hooks = [await cluster.open_hook(f"receiver-{number}", failing) for number in range(ORGANISATIONS)]
    for _ in range(2):
        cluster.start_worker()
    stop = asyncio.Event()

    async def place_orders(organisation: Organisation) -> None:
        while not stop.is_set():
            await cluster.place(organisation, 5, at_once=2)

    async with asyncio.TaskGroup() as clients:
        for hook in hooks:
            clients.create_task(place_orders(hook.organisation))
        await cluster.until(lambda: all(hook.receiver.exchanges for hook in hooks), "all receivers get events", 30)
        try:
            yield
            await asyncio.sleep(1.0)
        finally:
            stop.set()
    repeated(cluster.failed_requests)
    cluster.notes.append(f"{len(cluster.placed)} orders")


@scenario("postgres-restarted", within_s=120)
async def postgres_restarted(cluster: Cluster) -> None:
    cluster.log_errors_expected = True
    fired, started_s = cluster.announce("PostgreSQL stopped hard and restarted", OUTAGES), time.monotonic()
    async with _load(cluster):
        for _ in range(OUTAGES):
            await asyncio.sleep(cluster.rng.uniform(1.5, 3.0))
            await cluster.restart_postgres(1.0)
            fired()
    await cluster.until_delivered(60)
    _require_few_lines(cluster, time.monotonic() - started_s)


def _require_few_lines(cluster: Cluster, lasted_s: float) -> None:
    """An outage is one line per process and minute, however many requests and jobs it fails."""
    for log in sorted(cluster.folder.glob("*.log")):
        entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        tracebacks = sum("exception" in entry for entry in entries)
        cluster.require(tracebacks == 0, f"{log.name} has {tracebacks} tracebacks")
        events = Counter(entry["event"] for entry in entries if entry["level"] in {"warning", "error"})
        outages, others = events.pop("database_unavailable", 0), dict(events)
        most = 1 + int(lasted_s / LOG_OUTAGE_EVERY_S)
        cluster.require(1 <= outages <= most, f"{log.name} reports the outage {outages} times, instead of 1 to {most}")
        cluster.notes.append(f"{log.name}: {outages} lines of the outage, others {others}")


@scenario("api-killed", quick=True)
async def api_killed(cluster: Cluster) -> None:
    fired = cluster.announce("api killed", OUTAGES)
    async with _load(cluster):
        for _ in range(OUTAGES):
            await asyncio.sleep(cluster.rng.uniform(0.5, 1.0))
            if cluster.api is not None:
                cluster.api.kill()
                fired()
            await cluster.start_api()
    await cluster.until_delivered(30)
