"""The limit of delivery: a bare aiohttp loop that posts the same bodies, made in advance, to the same receivers."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import asyncpg

from bench.tenants import MODE
from tonne.channels.webhooks.delivery.schedule import MAX_BATCH
from tonne.channels.webhooks.model import EventBatch
from tonne.platform.events.payload import event_payload, head_of

_HEADERS = {"Content-Type": "application/json"}
# Opens the connection before the clock starts.
_EMPTY = b'{"events":[]}'


@dataclass(frozen=True, slots=True)
class Route:
    """The events of one organisation after a position, and the receiver that gets them."""

    organisation_id: str
    after_position: int
    url: str

    @property
    def source(self) -> tuple[str, int]:
        """The webhooks of one organisation send the same bodies."""
        return self.organisation_id, self.after_position


async def post_all(database_url: str, ca_file: Path, routes: Sequence[Route], times: int) -> float:
    """Events per second over all routes at once, with one connection and one request in flight for each.

    The same bodies are sent `times` times, so that the measurement is not too short.
    """
    payloads = await _read_payloads(database_url, routes)
    bodies = {source: _make_bodies(found) for source, found in payloads.items()}
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca_file), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(_post(session, route.url, [_EMPTY]) for route in routes))
        started = time.perf_counter()
        await asyncio.gather(*(_post(session, route.url, bodies[route.source] * times) for route in routes))
        took_s = time.perf_counter() - started
    return sum(len(payloads[route.source]) for route in routes) * times / took_s


async def _post(session: aiohttp.ClientSession, url: str, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        async with session.post(url, data=body, headers=_HEADERS) as response:
            if response.status != 200:
                raise RuntimeError(f"a receiver returned {response.status}")
            await response.read()


READ_EVENTS = f"""
SELECT {head_of("events")} AS head, document FROM events
WHERE organisation_id = $1 AND mode = $2 AND position > $3 ORDER BY position
"""


async def _read_payloads(database_url: str, routes: Sequence[Route]) -> dict[tuple[str, int], list[bytes]]:
    connection = await asyncpg.connect(database_url)
    found = {}
    for organisation_id, after_position in {route.source for route in routes}:
        rows = await connection.fetch(READ_EVENTS, organisation_id, MODE, after_position)
        found[organisation_id, after_position] = [event_payload(row["head"], row["document"]) for row in rows]
    await connection.close()
    return found


def _make_bodies(payloads: Sequence[bytes]) -> list[bytes]:
    batches = [payloads[start : start + MAX_BATCH] for start in range(0, len(payloads), MAX_BATCH)]
    return [EventBatch([], b",".join(batch), 0).body for batch in batches]
