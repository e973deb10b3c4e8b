"""The run's own PostgreSQL, in a folder of its own: it can be stopped as if the power had failed."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg

from tonne.base.clock import utc_now
from tonne.base.scope import Mode
from tonne.catalog.demo import demo_files
from tonne.db.migrate import migrate
from tonne.db.pool import Connection
from tonne.db.postmaster import Postmaster
from tonne.retirements.import_lots import import_files

TEMPLATE = "chaos_template"


class Postgres:
    def __init__(self, folder: Path) -> None:
        # Not supervised: a scenario decides when the server is down.
        self._postmaster = Postmaster(folder)
        self._postmaster.prepare()
        self._postmaster.start()
        self.url = self._postmaster.url

    async def make_template(self) -> None:
        """A migrated database with the catalogue in it; each scenario works on a copy."""
        async with self.connection("postgres") as admin:
            await admin.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
        async with self.connection(TEMPLATE) as template:
            await migrate(template)
            async with template.transaction():
                await import_files(template, Mode.TEST, demo_files(Mode.TEST), currency="EUR", now=utc_now())

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
        process = self._postmaster.running()
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            await asyncio.to_thread(process.wait)

    async def start(self) -> None:
        await asyncio.to_thread(self._postmaster.start)

    async def close(self) -> None:
        await asyncio.to_thread(self._postmaster.stop)
