"""A database that can become unavailable: a relay between a worker and PostgreSQL."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.processes import HOST
from tests.support.receivers import Listener
from tonne.apps.wiring.app import Services
from tonne.channels.webhooks.delivery.deliver import Deliverer
from tonne.channels.webhooks.sending.sender import Sender
from tonne.platform.db.database import Database
from tonne.platform.db.server.postmaster import SOCKET
from tonne.platform.settings.settings import Settings


class Relay(Listener):
    """`shut` drops all connections and refuses new ones; `open` accepts them again."""

    def __init__(self, socket_folder: str) -> None:
        super().__init__(self._relay)
        self._socket = str(Path(socket_folder) / SOCKET)
        # Set while responses of the database are passed on. Statements are always passed on.
        self.responding = asyncio.Event()
        self.responding.set()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self._socket)
        try:
            directions = (self._copy(reader, to_server), self._copy(from_server, writer, self.responding))
            tasks = [asyncio.create_task(direction) for direction in directions]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            to_server.close()

    @staticmethod
    async def _copy(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, when: asyncio.Event | None = None
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if when is not None:
                    await when.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def relayed_services(url: str, settings: Settings) -> AsyncIterator[tuple[Relay, Services]]:
    """The relay to the database at this URL, and services with a deliverer that reach the database through it."""
    parts = urlsplit(url)
    relay = Relay(parse_qs(parts.query)["host"][0])
    await relay.open()
    database = Database(f"postgresql://postgres@{HOST}:{relay.port}{parts.path}?sslmode=disable", settings)
    await database.open()
    services = Services(database, settings)
    services.deliverer = Deliverer(database, lambda: Sender(settings), services.box, settings)
    try:
        yield relay, services
    finally:
        await database.close()
        await relay.close()
