"""A database URL with several hosts: one that hangs or is no primary does not keep the others from being used."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.conftest import Server
from tests.support.processes import free_port
from tonne.platform.db.database import Database
from tonne.platform.db.server.hosts import connect_to_any, hosts_of
from tonne.platform.settings.settings import Settings

HOSTS = {
    "postgresql://u:p@one,two:5433/db": [("one", 5432), ("two", 5433)],
    "postgresql://u:p%40x@one/db?port=5433": [("one", 5433)],
    "postgresql:///db?host=one,two&port=5433,5434": [("one", 5433), ("two", 5434)],
    "postgresql:///db?host=one,two&port=5433": [("one", 5433), ("two", 5433)],
    "postgresql://u@[::1]:5433,[fe80::2]/db": [("::1", 5433), ("fe80::2", 5432)],
    "postgresql://u@/db?host=/run/a%20b,one": [("/run/a b", 5432), ("one", 5432)],
    "postgresql:///db": [],
}


@pytest.mark.parametrize("url", HOSTS)
def test_the_hosts_of_a_url(url: str) -> None:
    assert hosts_of(url) == HOSTS[url]


class FrozenHost:
    """Takes connections and stays silent."""

    def __init__(self) -> None:
        self.connections: asyncio.Queue[asyncio.StreamReader] = asyncio.Queue()
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.connections.put_nowait(reader)

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self._server.close()
        await self._server.wait_closed()


@pytest.fixture
async def frozen() -> AsyncIterator[FrozenHost]:
    host = FrozenHost()
    await host.open()
    yield host
    await host.close()


def _behind(server: Server, *ports: int, attributes: str = "read-write") -> str:
    """The URL of the test database with hosts on these ports before it."""
    ((folder, _),) = hosts_of(server.url("postgres"))
    hosts = ",".join([*("127.0.0.1" for _ in ports), folder])
    listed = ",".join([*map(str, ports), "5432"])
    return f"postgresql://postgres@/postgres?host={hosts}&port={listed}&target_session_attrs={attributes}"


async def test_operations_3_a_frozen_host_is_passed_over(server: Server, frozen: FrozenHost) -> None:
    settings = Settings(database_connect_s=60.0)
    database = await asyncio.wait_for(Database(_behind(server, frozen.port), settings).open(), 30)
    async with database.connection() as connection:
        assert not await connection.fetchval("SELECT pg_is_in_recovery()")
    await database.close()


async def test_a_host_that_refuses_connections_is_passed_over(server: Server) -> None:
    connection = await connect_to_any(_behind(server, free_port(), free_port()), within_s=2.0)
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()


async def test_operations_14_no_host_of_the_requested_kind(server: Server, frozen: FrozenHost) -> None:
    """There is no standby: the error is one that means that the database is unavailable."""
    with pytest.raises((TimeoutError, asyncpg.TargetServerAttributeNotMatched)):
        await connect_to_any(_behind(server, frozen.port, attributes="standby"), within_s=0.3)


async def test_an_error_that_a_person_must_fix_is_reported_before_hosts_that_are_down(server: Server) -> None:
    url = _behind(server, free_port()).replace("/postgres?", "/no_such_database?")
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await connect_to_any(url, within_s=2.0)


async def test_a_cancelled_attempt_leaves_no_connection(server: Server, frozen: FrozenHost) -> None:
    url = _behind(server, frozen.port, frozen.port, attributes="standby")
    attempt = asyncio.create_task(connect_to_any(url, within_s=60.0))
    connections = [await asyncio.wait_for(frozen.connections.get(), 10) for _ in range(2)]
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    for connection in connections:
        await asyncio.wait_for(connection.read(), 10)


async def test_a_host_that_hangs_is_left_when_another_one_has_answered(server: Server, frozen: FrozenHost) -> None:
    connection = await connect_to_any(_behind(server, frozen.port), within_s=60.0)
    hanging = await asyncio.wait_for(frozen.connections.get(), 10)
    await asyncio.wait_for(hanging.read(), 10)
    await connection.close()
