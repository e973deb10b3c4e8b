"""The run's own PostgreSQL, in a folder of its own: it can be stopped as if the power had failed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg

from tonne.base.clock import utc_now
from tonne.base.scope import Mode
from tonne.catalog.demo import demo_files
from tonne.catalog.import_catalogue import import_catalogue
from tonne.db.embedded import start_server
from tonne.db.migrate import migrate
from tonne.db.pool import Connection

TEMPLATE = "chaos_template"


class Postgres:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handle = start_server(folder)
        self._socket_folder = str(self._handle.get_postmaster_info().socket_dir)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._socket_folder}"

    async def make_template(self) -> None:
        """A migrated database with the catalogue in it; each scenario works on a copy."""
        async with self.connection("postgres") as admin:
            await admin.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
        async with self.connection(TEMPLATE) as template:
            await migrate(template)
            async with template.transaction():
                await import_catalogue(template, Mode.TEST, demo_files(Mode.TEST), currency="EUR", now=utc_now())

    async def clone(self, name: str) -> None:
        async with self.connection("postgres") as admin:
            await admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")

    async def drop(self, name: str) -> None:
        async with self.connection("postgres") as admin:
            await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    @contextlib.asynccontextmanager
    async def connection(self, database: str) -> AsyncIterator[Connection]:
        connection: Connection = await asyncpg.connect(self.url(database))
        try:
            yield connection
        finally:
            await connection.close()

    async def stop_hard(self) -> None:
        """No checkpoint, no goodbye to the clients: what was committed must be found again in the write-ahead log."""
        await self._pg_ctl("-m", "immediate", "stop")

    async def start(self) -> None:
        await self._pg_ctl("-o", f'-h "" -k {self._socket_folder}', "-l", str(self._folder / "log"), "start")

    async def close(self) -> None:
        # The package's own way to stop knows only the server process that it has started itself.
        if (self._folder / "postmaster.pid").exists():
            await self.stop_hard()
        self._handle.cleanup()

    async def _pg_ctl(self, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            str(self._handle.bin_path / "pg_ctl"),
            *("-w", "-D", str(self._folder)),
            *arguments,
            user=self._handle.system_user,
            cwd="/",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        if await process.wait() != 0:
            raise RuntimeError(f"pg_ctl {arguments[-1]} failed: read {self._folder / 'log'}")
