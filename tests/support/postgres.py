"""PostgreSQL for tests: databases that are cloned from templates, and a server that can be stopped hard."""

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import asyncpg
import psutil

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.schema.migrate import migrate
from tonne.platform.db.server.postmaster import Postmaster, make_private_folder, postgres_binaries, unprivileged

T = TypeVar("T")


class Databases:
    """The databases of a server. `url` returns the URL of a database by its name."""

    def __init__(self, url: Callable[[str], str]) -> None:
        self.url = url

    @contextlib.asynccontextmanager
    async def connection(self, database: str = "postgres") -> AsyncIterator[Connection]:
        connection: Connection = await asyncpg.connect(self.url(database))
        try:
            yield connection
        finally:
            await connection.close()

    async def create(self, database: str) -> None:
        """Create a database and migrate it."""
        async with self.connection() as admin:
            await admin.execute(f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
        async with self.connection(database) as connection:
            await migrate(connection)

    async def fill(self, database: str, write: Callable[[Connection], Awaitable[T]]) -> T:
        """Write data in one transaction."""
        async with self.connection(database) as connection, connection.transaction():
            return await write(connection)

    async def clone(self, template: str, database: str) -> None:
        async with self.connection() as admin:
            await admin.execute(f"CREATE DATABASE {database} TEMPLATE {template} STRATEGY FILE_COPY")

    async def drop(self, database: str) -> None:
        async with self.connection() as admin:
            await admin.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")


@contextlib.asynccontextmanager
async def undone(database: Database) -> AsyncIterator[Connection]:
    """A transaction that is rolled back, so that many changes can be tried in one scene."""
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()


class PostgresServer(Databases):
    """A server in a folder of its own. It is not supervised: it stays down until `start`."""

    def __init__(self, folder: Path) -> None:
        self._postmaster = Postmaster(folder)
        self._postmaster.prepare()
        self._postmaster.start()
        super().__init__(self._postmaster.url)

    async def stop_hard(self) -> None:
        """Stop without a checkpoint and without closing connections, like a power failure."""
        process = self._postmaster.running()
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            await asyncio.to_thread(process.wait)

    def freeze(self) -> None:
        """Stop all processes of the server without closing a connection: it accepts bytes and never responds."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        process = self._postmaster.running()
        if process is not None:
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.send_signal(number)

    async def start(self) -> None:
        await asyncio.to_thread(self._postmaster.start)

    async def close(self) -> None:
        await asyncio.to_thread(self._postmaster.stop)


class ReplicaServer(PostgresServer):
    """A streaming replica of another server."""

    def __init__(self, primary: PostgresServer, folder: Path) -> None:
        make_private_folder(folder)
        options = ("--write-recovery-conf", "--checkpoint=fast", "--dbname", primary.url("postgres"))
        command = [*unprivileged(), str(postgres_binaries() / "pg_basebackup"), "--pgdata", str(folder / "data")]
        subprocess.run([*command, *options], check=True)
        super().__init__(folder)
