"""Work that only reads, in several short transactions, on the replica while there is one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import click

from tonne.apps.cli import database
from tonne.apps.cli.progress import bars_on_terminal
from tonne.platform.db.database import Connection
from tonne.platform.db.errors import DATABASE_ERRORS, is_database_unavailable
from tonne.platform.db.replica import RECOVERY_CONFLICTS
from tonne.platform.db.schema.migrate import require_compatible

T = TypeVar("T")
# A replica may cancel the same work this often before it is done on the primary.
FAILURES = 3


class Readers:
    """Connections to one server, each for one piece of work at a time.

    Every piece of work is a transaction of its own: a snapshot that is held for minutes keeps the primary from removing
    old rows. If the replica is lost, or keeps cancelling the work, all goes on on the primary.
    """

    def __init__(self, primary_url: str, replica_url: str | None = None) -> None:
        self._urls = {"primary": primary_url, "replica": replica_url or primary_url}
        self._connections: dict[tuple[str, int], Connection] = {}
        # The server that is read now: primary or replica.
        self.server = "replica" if replica_url else "primary"

    async def run(self, place: int, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work(tx)` in a transaction that only reads, on the connection of this place. It may run repeatedly."""
        failures = 0
        while True:
            server = self.server
            try:
                connection = await self._connection(server, place)
            except DATABASE_ERRORS as error:
                if server == "primary":
                    raise
                self._leave_replica(f"The replica was lost ({error!r}).")
                continue
            try:
                async with connection.transaction(readonly=True):
                    return await work(connection)
            except DATABASE_ERRORS as error:
                # A replica may cancel a query, or end the connection: then asyncpg reports only that it is closed.
                is_cancelled = isinstance(error, RECOVERY_CONFLICTS) or connection.is_closed()
                if server == "primary" or not (is_cancelled or is_database_unavailable(error)):
                    raise
                failures += 1
                if failures == FAILURES:
                    self._leave_replica(database.CONFLICT)

    async def write(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work(tx)` in a transaction on the primary."""
        connection = await self._connection("primary", 0)
        async with connection.transaction():
            return await work(connection)

    async def close(self) -> None:
        for connection in self._connections.values():
            # A connection that is broken already cannot be closed properly.
            with contextlib.suppress(*DATABASE_ERRORS):
                await connection.close(timeout=1)

    async def _connection(self, server: str, place: int) -> Connection:
        connection = self._connections.get((server, place))
        if connection is None or connection.is_closed():
            connection = self._connections[server, place] = await database.connect(self._urls[server])
        return connection

    def _leave_replica(self, why: str) -> None:
        if self.server == "replica":
            self.server = "primary"
            click.echo(f"{why} Reading from the primary.", err=True)


@contextlib.asynccontextmanager
async def open_readers(primary_url: str, replica_url: str | None = None) -> AsyncIterator[Readers]:
    readers = Readers(primary_url, replica_url)
    try:
        yield readers
    finally:
        await readers.close()


def run_with_readers(work: Callable[[Readers], Awaitable[T]]) -> T:
    """Run `work(readers)` on a replica that has all that was committed before, or else on the primary."""

    async def choose(url: str) -> T:
        connection = await database.connect(url)
        try:
            await require_compatible(connection)
            replica = await database.open_replica(connection, settings)
            if replica is not None:
                await replica.close()
        finally:
            await connection.close()
        async with open_readers(url, settings.database_replica_url if replica else None) as readers:
            return await work(readers)

    with database.plain_failures():
        settings = database.settings_from_environment()
        with database.open_database(settings) as url, bars_on_terminal():
            return asyncio.run(choose(url))
