"""Connections and transactions. Return commits, raise rolls back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from tonne.base.settings import Settings

if TYPE_CHECKING:
    # From the pool comes a proxy that has all of a connection's methods.
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]
else:
    Connection = asyncpg.Connection
    Pool = asyncpg.Pool


class _PlainConnection(asyncpg.Connection):
    """Given back to the pool without the usual round trip: nothing here sets session state or leaves cursors."""

    def get_reset_query(self) -> str:
        return ""


class Database:
    """A pool of connections to one PostgreSQL."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._pool: Pool | None = None

    @property
    def pool(self) -> Pool:
        if self._pool is None:
            raise RuntimeError("the database is not open")
        return self._pool

    async def open(self) -> "Database":
        timeout_ms = int(self._settings.statement_timeout_s * 1000)
        self._pool = await asyncpg.create_pool(
            self._url,
            min_size=2,
            max_size=self._settings.database_connections,
            connection_class=_PlainConnection,
            server_settings={
                "application_name": "tonne",
                "statement_timeout": str(timeout_ms),
                "idle_in_transaction_session_timeout": str(2 * timeout_ms),
                "TimeZone": "UTC",
                # Our queries are short and indexed: compiling them costs more than running them.
                "jit": "off",
            },
        )
        return self

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """For reads: each statement stands for itself."""
        async with self.pool.acquire() as connection:
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """For several reads that must show one and the same moment."""
        async with (
            self.pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """One short transaction. Never wait for a network, a mail or a PDF inside."""
        async with self.pool.acquire() as connection, connection.transaction():
            yield connection

    async def close(self) -> None:
        await self.pool.close()
