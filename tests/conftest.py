"""Real PostgreSQL for every test: one throwaway server per run, one cloned database per test."""

import asyncio
import base64
import fcntl
import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import hypothesis
import msgspec
import pytest

from tests.support.api_client import ApiClient
from tests.support.world import World, build_world
from tonne.app import Services, build_app
from tonne.base.clock import Clock, utc_now
from tonne.base.settings import Settings
from tonne.db.embedded import start_server
from tonne.db.migrate import migrate
from tonne.db.pool import Connection, Database

# A slow moment of the machine is no fault of the code.
hypothesis.settings.register_profile("tonne", deadline=None)
hypothesis.settings.load_profile("tonne")

NEEDED_BYTES = 2 * 1024**3
EMPTY, POPULATED = "template_empty", "template_populated"
_numbers = itertools.count()


class Server(msgspec.Struct):
    """`world` describes what the populated template holds."""

    socket_folder: str
    world: World

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.socket_folder}"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Server]:
    """Started by the first test process that needs it, shared by all, stopped by the last one to leave."""
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    with _one_at_a_time(shared / "server.lock"):
        # Not below pytest's own folder: as root the server runs as another user, whom a second run would lock out.
        folder = _fast_folder() / f"tonne-test-{hashlib.sha256(str(shared).encode()).hexdigest()[:12]}"
        handle = start_server(folder)
        url = handle.url("postgres")
        # Removed with the server: a process that starts it again makes the templates again.
        facts = folder / "world.json"
        if not facts.exists():
            facts.write_bytes(msgspec.json.encode(asyncio.run(_make_templates(url))))
    yield Server(handle.socket_folder, msgspec.json.decode(facts.read_bytes(), type=World))
    handle.close()
    if handle.postmaster.running() is None:
        shutil.rmtree(folder, ignore_errors=True)


def _fast_folder() -> Path:
    """In memory where there is room: a database is made and dropped for every test, which disks are slow at."""
    memory = Path("/dev/shm")  # noqa: S108 - the server makes a folder of its own in it
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > NEEDED_BYTES:
        return memory
    return Path(tempfile.gettempdir())


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def _make_templates(url: str) -> World:
    connection: Connection = await asyncpg.connect(url)
    # Durability is tested where it is the subject; here it would only cost time.
    await connection.execute("ALTER SYSTEM SET fsync = off")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.execute(f"CREATE DATABASE {EMPTY} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
    empty: Connection = await asyncpg.connect(url.replace("/postgres?", f"/{EMPTY}?"))
    await migrate(empty)
    await empty.close()
    await connection.execute(f"CREATE DATABASE {POPULATED} TEMPLATE {EMPTY}")
    populated: Connection = await asyncpg.connect(url.replace("/postgres?", f"/{POPULATED}?"))
    async with populated.transaction():
        world = await build_world(populated)
    await populated.close()
    await connection.close()
    return world


async def _clone(server: Server, template: str) -> str:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    connection: Connection = await asyncpg.connect(server.url("postgres"))
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    await connection.close()
    return name


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Nothing is remembered between two calls, and nothing is limited, unless a test says so."""
    return Settings(
        data_dir=str(tmp_path),
        public_url="http://tonne.test",
        catalogue_refresh_s=0,
        key_refresh_s=0,
        rate_limit_per_second=1e6,
        rate_limit_burst=1_000_000,
        failed_auth_burst=1_000_000,
        failed_lookup_burst=1_000_000,
        checkouts_burst=1_000_000,
        secret_key=base64.b64encode(b"not so secret: for tests, 32 B.!").decode(),
    )


@pytest.fixture
async def db(server: Server, settings: Settings) -> AsyncIterator[Database]:
    """A migrated database with nothing in it."""
    async for database in _open(server, EMPTY, settings):
        yield database


@pytest.fixture
async def populated_db(server: Server, settings: Settings) -> AsyncIterator[Database]:
    """A database in which the world has been built."""
    async for database in _open(server, POPULATED, settings):
        yield database


async def _open(server: Server, template: str, settings: Settings) -> AsyncIterator[Database]:
    name = await _clone(server, template)
    database = await Database(server.url(name), settings).open()
    yield database
    await database.close()
    connection: Connection = await asyncpg.connect(server.url("postgres"))
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.fixture
def world(server: Server) -> World:
    return server.world


@pytest.fixture
def clock() -> Clock:
    """The real time. Tests that move their clock override it with a `ManualClock`."""
    return utc_now


@pytest.fixture
async def services(populated_db: Database, settings: Settings, clock: Clock) -> AsyncIterator[Services]:
    services = Services(populated_db, settings, clock)
    yield services
    await services.health.close()


@pytest.fixture
async def api(services: Services, world: World) -> AsyncIterator[ApiClient]:
    """The whole application, in this process, speaking HTTP as `ours` in test mode unless told otherwise."""
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield ApiClient(client, world.ours_test.key)


@pytest.fixture
async def browser(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    """Keeps cookies, follows nothing by itself, and is nobody's client."""
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield client


@pytest.fixture
def rows(services: Services) -> Callable[[str], Awaitable[list[dict[str, Any]]]]:
    async def fetch(statement: str) -> list[dict[str, Any]]:
        async with services.database.connection() as connection:
            return [dict(row) for row in await connection.fetch(statement)]

    return fetch
