"""Listening for notifications continues after the connection is lost and after a failover."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import structlog
from structlog.typing import EventDict

from tests.conftest import EMPTY, Server
from tonne.platform.db import errors as database_errors
from tonne.platform.events import notification
from tonne.platform.events.notification import CHANNEL, Notification, listen
from tonne.platform.settings.settings import Settings

LISTENERS = """
SELECT pid FROM pg_stat_activity WHERE datname = $1 AND application_name = 'tonne' AND query LIKE 'LISTEN %'
"""


@pytest.fixture
async def database(server: Server) -> AsyncIterator[str]:
    name = await server.clone_of(EMPTY)
    yield name
    await server.drop(name)


class Listening:
    """Records what arrives."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.received: asyncio.Queue[Notification] = asyncio.Queue()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(listen(url, settings, self.received.put_nowait, self._stop))

    async def next(self) -> Notification:
        return await asyncio.wait_for(self.received.get(), 30)

    async def close(self) -> None:
        self._stop.set()
        await self._task


@pytest.fixture
async def listening(server: Server, database: str, settings: Settings) -> AsyncIterator[Listening]:
    """The URL accepts a primary only, as it should with several servers."""
    opened = Listening(f"{server.url(database)}&target_session_attrs=read-write", settings)
    yield opened
    await opened.close()


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[EventDict]:
    """What is logged."""
    monkeypatch.setattr(database_errors, "_outage_logged_at", float("-inf"))
    monkeypatch.setattr(notification, "RECONNECT_S", 0.01)
    logged: asyncio.Queue[EventDict] = asyncio.Queue()

    def record(_logger: object, _method: str, event: EventDict) -> EventDict:
        logged.put_nowait(event)
        raise structlog.DropEvent

    structlog.configure(processors=[record])
    return logged


async def _end_listener(admin: "asyncpg.Connection[asyncpg.Record]", database: str) -> None:
    pid = await admin.fetchval(LISTENERS, database)
    assert await admin.fetchval("SELECT pg_terminate_backend($1, 10000)", pid)


async def test_a_lost_connection_is_replaced(server: Server, database: str, listening: Listening) -> None:
    assert (await listening.next()).kinds is None
    async with server.connection(database) as admin:
        await _end_listener(admin, database)
        # Everything is looked at once, because notifications may have been missed.
        assert (await listening.next()).kinds is None
        await admin.execute("SELECT pg_notify($1, '')", CHANNEL)
        await listening.next()


async def test_operations_14_it_waits_until_there_is_a_primary(
    server: Server, database: str, listening: Listening, warnings: asyncio.Queue[EventDict]
) -> None:
    """A database whose sessions are read-only is refused like a replica, with an error of asyncpg's own."""
    assert (await listening.next()).kinds is None
    async with server.connection() as admin:
        await admin.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        with pytest.raises(asyncpg.TargetServerAttributeNotMatched):
            await asyncpg.connect(f"{server.url(database)}&target_session_attrs=read-write")
        await _end_listener(admin, database)
        assert (await asyncio.wait_for(warnings.get(), 30))["event"] == "database_unavailable"
        # It tries again every few milliseconds. The outage is one line of the process, not one of each try.
        await asyncio.sleep(0.3)
        assert warnings.empty(), warnings.get_nowait()
        await admin.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    assert (await listening.next()).kinds is None
