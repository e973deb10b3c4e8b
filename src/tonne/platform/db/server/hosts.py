"""Connections to a database with several hosts, of which one may hang."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from tonne.platform.db.errors import is_database_unavailable

_Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
_Attempt: TypeAlias = Callable[[], Awaitable[_Connection]]

# The next host is tried when the one before it has failed, or after this time without a result.
NEXT_HOST_S = 0.25
DEFAULT_PORT = 5432
_HOST_AND_PORT = re.compile(r"\[(?P<six>[^\]]+)\](:(?P<six_port>\d+))?|(?P<host>[^:]*)(:(?P<port>\d+))?")


async def connect_to_any(url: str, *, within_s: float, **options: Any) -> _Connection:
    """A connection to the first host of the URL that accepts one and is of the kind that the URL asks for.

    `within_s` applies to each host. asyncpg itself tries one host after the other within a single time limit: a host
    that hangs uses all of it, and the others are never tried.
    """
    hosts = hosts_of(url)
    if len(hosts) < 2 or "prefer-standby" in url:
        found: _Connection = await asyncpg.connect(url, timeout=within_s, **options)
        return found
    # asyncpg's stubs do not know that one host of the URL may be chosen.
    attempt: Any = partial(asyncpg.connect, url, timeout=within_s, **options)
    return await _first([partial(attempt, host=host, port=port) for host, port in hosts])


def hosts_of(url: str) -> list[tuple[str, int]]:
    """The hosts with their ports, in the order of the URL. Empty if it names none."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    named = query["host"][-1] if "host" in query else unquote(parts.netloc.rpartition("@")[2])
    ports = query["port"][-1].split(",") if "port" in query else []
    return list(_each_host(named.split(","), ports)) if named else []


def _each_host(hosts: Sequence[str], ports: Sequence[str]) -> Iterator[tuple[str, int]]:
    for number, text in enumerate(hosts):
        # One port for all hosts, or one for each.
        port = ports[min(number, len(ports) - 1)] if ports else ""
        match = None if text.startswith("/") else _HOST_AND_PORT.fullmatch(text)
        if match is None:
            yield text, int(port or DEFAULT_PORT)
        else:
            yield match["six"] or match["host"], int(match["six_port"] or match["port"] or port or DEFAULT_PORT)


async def _first(attempts: Sequence[_Attempt]) -> _Connection:
    waiting = list(attempts)
    errors: list[BaseException] = []
    running: set[asyncio.Task[_Connection]] = set()
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.ensure_future(_await(waiting.pop(0))))
            done, running = await asyncio.wait(
                running, timeout=NEXT_HOST_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            connected = [task.result() for task in done if task.exception() is None]
            for superfluous in connected[1:]:
                superfluous.terminate()
            if connected:
                return connected[0]
            errors += [error for task in done if (error := task.exception()) is not None]
    finally:
        await _abandon(running)
    # A refused password says more than a host that is down.
    raise next((error for error in errors if not is_database_unavailable(error)), errors[-1])


async def _await(attempt: _Attempt) -> _Connection:
    return await attempt()


async def _abandon(running: set[asyncio.Task[_Connection]]) -> None:
    for task in running:
        task.cancel()
    for found in await asyncio.gather(*running, return_exceptions=True):
        # It had connected when it was cancelled.
        if not isinstance(found, BaseException):
            found.terminate()
