"""Databases that a test process keeps, with open connections. They are restored before each test, not cloned again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from tests.support.cpu_times import watch_backend
from tonne.platform.db.database import Connection, Database, connect
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.db.session_settings import session_settings
from tonne.platform.process.telemetry import tracing
from tonne.platform.settings.settings import Settings

if TYPE_CHECKING:
    from tests.support.postgres import Databases

# More than most tests need at once. The others are closed after the test that opened them.
KEPT_CONNECTIONS = 10
# Deleted rows stay in the tables and their indexes until then.
VACUUM_EVERY = 200
SCHEMA_CHANGED = "TS001"
MAKE_BASELINE = Path(__file__).with_name("baseline.sql").read_text(encoding="utf-8")
# A test that has ended may have left connections, of itself and of its processes: their transactions would wait for
# the restore, and change what it restored.
END_STRANGERS = """
SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> ALL ($1::integer[])
"""
RESTORE = """
SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; SELECT baseline.restore();
"""


class KeptDatabase:
    def __init__(self, databases: "Databases", template: str, name: str) -> None:
        self._databases = databases
        self._template = template
        self._name = name
        self._exists = False
        self._restores = 0
        self._kept: list[Connection] = []
        self._kept_for: object = None
        # Restores only: that switches triggers off, and so the connection forgets all plans.
        self._restorer: Connection | None = None
        self.is_leased = False

    @asynccontextmanager
    async def lease(self, settings: Settings) -> AsyncIterator[Database]:
        """The database with the contents of its template."""
        self.is_leased = True
        pool = _Pool(self._databases.url(self._name), settings, self)
        try:
            await self._prepare(settings)
            yield await pool.open()
        finally:
            await self._keep(pool.take_idle(), settings)
            await pool.close()
            self.is_leased = False

    def take(self, settings: Settings) -> Connection | None:
        """A kept connection, if there is one with these settings."""
        while self._kept and _needs(settings) == self._kept_for:
            if not (connection := self._kept.pop()).is_closed():
                return connection
        return None

    async def _keep(self, connections: list[Connection], settings: Settings) -> None:
        """Keep some of the connections that a test has used, without what it has set on them."""
        if self._kept_for != _needs(settings):
            await self._close_kept()
            self._kept_for = _needs(settings)
        for connection in connections:
            if len(self._kept) < KEPT_CONNECTIONS and not tracing.is_on() and await _reset(connection):
                self._kept.append(connection)
            else:
                connection.terminate()

    async def _prepare(self, settings: Settings) -> None:
        if not self._exists:
            await self._make()
        if self._kept_for != _needs(settings):
            await self._close_kept()
            self._kept_for = _needs(settings)
        try:
            await self._restore(await self._open_restorer(settings))
        except asyncpg.PostgresError as error:
            if error.sqlstate != SCHEMA_CHANGED:
                raise
            await self._close_kept()
            await self._databases.drop(self._name)
            await self._make()
            await self._restore(await self._open_restorer(settings))

    async def _open_restorer(self, settings: Settings) -> Connection:
        """A connection that works, after all others but the kept ones have been ended."""
        while True:
            if self._restorer is None or self._restorer.is_closed():
                self._restorer = await connect(self._databases.url(self._name), settings)
            try:
                known = [one.get_server_pid() for one in (self._restorer, *self._kept) if not one.is_closed()]
                await self._restorer.fetch(END_STRANGERS, known)
            except DATABASE_ERRORS:
                # The test before has ended it.
                self._restorer.terminate()
            else:
                self._kept = [one for one in self._kept if not one.is_closed()]
                return self._restorer

    async def _restore(self, connection: Connection) -> None:
        self._restores += 1
        if self._restores % VACUUM_EVERY == 0:
            await connection.execute("SET statement_timeout = 0")
            await connection.execute("VACUUM")
            await connection.execute("RESET statement_timeout")
        await connection.execute(RESTORE)

    async def _make(self) -> None:
        await self._databases.clone(self._template, self._name)
        async with self._databases.connection(self._name) as connection:
            await connection.execute(MAKE_BASELINE)
        self._exists = True

    async def _close_kept(self) -> None:
        kept, self._kept = self._kept, []
        for connection in (*kept, *([self._restorer] if self._restorer else ())):
            connection.terminate()
        self._restorer = None


class _Pool(Database):
    """Takes kept connections before it opens new ones."""

    def __init__(self, url: str, settings: Settings, kept: KeptDatabase) -> None:
        super().__init__(url, settings)
        self._kept = kept

    async def _connect(self) -> Connection:
        if (connection := self._kept.take(self._settings)) is None:
            connection = await super()._connect()
        else:
            self._count += 1
            self._connects.inc("opened")
        watch_backend(connection.get_server_pid())
        return connection

    def take_idle(self) -> list[Connection]:
        idle, self._idle = self._idle, []
        self._count -= len(idle)
        return idle


async def _reset(connection: Connection) -> bool:
    try:
        await connection.reset(timeout=10)
    except (TimeoutError, *DATABASE_ERRORS):
        return False
    return not connection.is_closed()


def _needs(settings: Settings) -> object:
    """Connections are alike if these are."""
    return session_settings(settings), settings.statement_timeout_s, settings.database_pooling
