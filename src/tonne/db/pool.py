"""Connections and transactions. Return commits, raise rolls back."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING

import asyncpg

from tonne.base.settings import Settings
from tonne.db.errors import DATABASE_ERRORS

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

CLOSE_WITHIN_S = 5.0


class Database:
    """A few connections to one PostgreSQL, lent out one at a time, the one used last first.

    The pool of asyncpg starts a task for every connection it takes back and stands between us and each call: measured,
    a third of what reading an order costs. This one knows no more than it must: nothing here sets session state, and a
    connection that was left in the middle of something is thrown away.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._open = False
        # Connections that exist or are being made.
        self._count = 0
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()

    async def open(self) -> "Database":
        """Make the first connection, so that a database out of reach is known at the start."""
        self._open = True
        async with self.connection():
            return self

    def connection(self) -> "_Loan":
        """For reads: each statement stands for itself."""
        return _Loan(self)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """For several reads that must show one and the same moment."""
        async with (
            self.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """One short transaction. Never wait for a network, a mail or a PDF inside."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def close(self) -> None:
        """Close what is idle, and cut off what is still lent: by now nobody should hold one."""
        self._open = False
        idle, self._idle = self._idle, []
        for connection in list(self._lent):
            connection.terminate()
        await asyncio.gather(*(_close(connection) for connection in idle))
        self._count -= len(idle)

    async def acquire(self) -> Connection:
        """An idle connection, a new one, or the next that is given back. Whoever waits longest comes first."""
        while True:
            if not self._open:
                raise asyncpg.InterfaceError("the database is not open")
            connection = self._idle_one()
            if connection is None and self._count < self._settings.database_connections:
                connection = await self._connect()
            if connection is None:
                connection = await self._wait()
            if connection is not None:
                self._lent.add(connection)
                return connection

    def release(self, connection: Connection, *, sound: bool) -> None:
        """`sound` is false after an interruption: then nobody knows what the connection is in the middle of."""
        self._lent.discard(connection)
        if not sound or connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
            self._count -= 1
            self._pass_on(None)
        elif not self._pass_on(connection):
            self._idle.append(connection)

    def _idle_one(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._count -= 1
        return None

    async def _connect(self) -> Connection:
        self._count += 1
        timeout_ms = int(self._settings.statement_timeout_s * 1000)
        try:
            connection: Connection = await asyncpg.connect(
                self._url,
                server_settings={
                    "application_name": "tonne",
                    "statement_timeout": str(timeout_ms),
                    "idle_in_transaction_session_timeout": str(2 * timeout_ms),
                    "TimeZone": "UTC",
                    # Our queries are short and indexed: compiling them costs more than running them.
                    "jit": "off",
                    # One plan per statement: planning anew costs as much as running. Statements are written for it.
                    "plan_cache_mode": "force_generic_plan",
                },
            )
        except BaseException:
            self._count -= 1
            self._pass_on(None)
            raise
        return connection

    async def _wait(self) -> Connection | None:
        """A connection, or None when there is room to make one."""
        turn: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            # It may have come in the very moment in which nobody wanted it any more.
            if turn.done() and not turn.cancelled() and (connection := turn.result()) is not None:
                self.release(connection, sound=True)
            raise

    def _pass_on(self, connection: Connection | None) -> bool:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return True
        return False


class _Loan:
    """A class rather than a generator: it is entered for every request."""

    __slots__ = ("_connection", "_database")

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __aenter__(self) -> Connection:
        self._connection = await self._database.acquire()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._database.release(self._connection, sound=kind is None or issubclass(kind, Exception))


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSE_WITHIN_S)
    except DATABASE_ERRORS:
        connection.terminate()
