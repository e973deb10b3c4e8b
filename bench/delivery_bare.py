"""The limit of delivery: a bare aiohttp loop that posts the same bodies to the same receivers, made beforehand."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import asyncpg
import uvloop

from bench.tenants import MODE
from tonne.webhooks.model import Batch
from tonne.webhooks.schedule import MAX_BATCH

_HEADERS = {"Content-Type": "application/json"}
# Opens the connection before the clock starts.
_EMPTY = b'{"events":[]}'


@dataclass(frozen=True, slots=True)
class Route:
    """The events of one organisation after a position, and the receiver they go to."""

    organisation_id: str
    after_position: int
    url: str


@dataclass(frozen=True, slots=True)
class Bare:
    database_url: str
    authority_file: Path
    routes: Sequence[Route]
    # So often the same bodies are sent, so that the measurement is not too short.
    times: int


def post_bare(bare: Bare) -> float:
    """Events a second, over all routes at once: one connection and one request in flight for each."""
    return uvloop.run(_post(bare))


async def _post(bare: Bare) -> float:
    bodies = await _read_bodies(bare)
    context = ssl.create_default_context(cafile=bare.authority_file)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(_post_all(session, route.url, [_EMPTY]) for route in bare.routes))
        started = time.perf_counter()
        await asyncio.gather(
            *(_post_all(session, route.url, bodies[_source(route)].bodies * bare.times) for route in bare.routes)
        )
        took_s = time.perf_counter() - started
    return sum(bodies[_source(route)].events for route in bare.routes) * bare.times / took_s


async def _post_all(session: aiohttp.ClientSession, url: str, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        async with session.post(url, data=body, headers=_HEADERS) as response:
            if response.status != 200:
                raise RuntimeError(f"a receiver answered {response.status}")
            await response.read()


@dataclass(frozen=True, slots=True)
class _Bodies:
    events: int
    bodies: list[bytes]


def _source(route: Route) -> tuple[str, int]:
    """Webhooks of one organisation send the same."""
    return route.organisation_id, route.after_position


READ_EVENTS = """
SELECT payload FROM events
WHERE organisation_id = $1 AND mode = $2 AND position > $3 ORDER BY position
"""


async def _read_bodies(bare: Bare) -> dict[tuple[str, int], _Bodies]:
    connection = await asyncpg.connect(bare.database_url)
    found = {}
    for organisation_id, after_position in {_source(route) for route in bare.routes}:
        rows = await connection.fetch(READ_EVENTS, organisation_id, MODE, after_position)
        events = [row["payload"].encode() for row in rows]
        batches = [events[start : start + MAX_BATCH] for start in range(0, len(events), MAX_BATCH)]
        found[organisation_id, after_position] = _Bodies(
            len(events), [Batch([], b",".join(batch), 0).body for batch in batches]
        )
    await connection.close()
    return found
