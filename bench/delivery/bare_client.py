"""The limit of delivery: a bare aiohttp loop that joins ready payloads, signs each body once, and posts it to the same
receivers."""

import asyncio
import hashlib
import hmac
import secrets
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import asyncpg

from bench.tenants import MODE
from tonne.channels.webhooks.delivery.schedule import MAX_BATCH
from tonne.platform.events.payload import event_payload, head_of

_SECRET = secrets.token_bytes(32)
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


@dataclass(frozen=True, slots=True)
class Sent:
    events: int
    took_s: float
    cpu_s: float


async def post_all(
    database_url: str, ca_file: Path, routes: Sequence[Route], times: int, *, signed: bool = True
) -> Sent:
    """Send all routes at once, with one connection and one request in flight for each.

    The same events are sent `times` times, so that the measurement is not too short.
    """
    payloads = await _read_payloads(database_url, routes)
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca_file), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(_post(session, route.url, _EMPTY, {}) for route in routes))
        started, cpu_before_s = time.perf_counter(), time.process_time()
        await asyncio.gather(
            *(_post_batches(session, route.url, payloads[route.source], times, signed=signed) for route in routes)
        )
        took_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_before_s
    return Sent(sum(len(payloads[route.source]) for route in routes) * times, took_s, cpu_s)


async def _post_batches(
    session: aiohttp.ClientSession, url: str, payloads: Sequence[bytes], times: int, *, signed: bool
) -> None:
    for _ in range(times):
        for start in range(0, len(payloads), MAX_BATCH):
            body = b'{"events":[%b]}' % b",".join(payloads[start : start + MAX_BATCH])
            headers = {"Content-Type": "application/json"}
            if signed:
                headers["Bench-HMAC"] = _signature(body)
            await _post(session, url, body, headers)


def _signature(body: bytes) -> str:
    timestamp = int(time.time())
    signature = hmac.new(_SECRET, b"%d." % timestamp, hashlib.sha256)
    signature.update(body)
    return f"timestamp={timestamp},v1={signature.hexdigest()}"


async def _post(session: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]) -> None:
    async with session.post(url, data=body, headers=headers) as response:
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
