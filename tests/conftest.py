"""Real PostgreSQL for every test: one server per run, two databases per test process, restored before each test."""

import asyncio
import base64
import fcntl
import functools
import gc
import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import hypothesis
import msgspec
import pytest
import structlog
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from httpx._transports import asgi as httpx_asgi
from httpx._transports import default as httpx_transports
from hypothesis.internal.conjecture import providers

from tests.support.api_client import ApiClient
from tests.support.cpu_times import (
    pytest_runtest_logreport,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_terminal_summary,
)
from tests.support.document_key import shared_document_key
from tests.support.kept_database import KeptDatabase
from tests.support.postgres import Databases
from tests.support.rewriting import pytest_configure
from tests.support.rounds import IS_LONG
from tests.support.shuffle import pytest_collection_modifyitems
from tests.support.world import World, build_world
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.db.server import postmaster
from tonne.platform.db.server.embedded import EmbeddedServer, start_server
from tonne.platform.http.asgi import AsgiApp
from tonne.platform.keys.signing import operator_key
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, utc_now

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_logreport",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_terminal_summary",
]

# No deadline: a busy machine must not fail a test.
hypothesis.settings.register_profile("tonne", deadline=None)
hypothesis.settings.load_profile("tonne")

# Otherwise every test process reads all modules for constants that random data may contain, for 5 s.
if not IS_LONG:
    providers._get_local_constants = lambda: providers._local_constants

# Otherwise every client of httpx reads all trusted certificates again, for 50 ms, also for plain HTTP.
httpx_transports.create_ssl_context = functools.cache(httpx.create_ssl_context)  # type: ignore[attr-defined]

# Otherwise every request looks for a package that is not installed, in all folders that Python imports from.
httpx_asgi.is_running_trio = lambda: False

# Connections are kept for many tests: each plans a statement once, also the long ones that check all invariants.
asyncpg.connect = functools.partial(  # type: ignore[assignment]
    asyncpg.connect, statement_cache_size=1000, max_cacheable_statement_size=0
)

# Otherwise every test that signs a document proves again, for 200 ms, that the factors of its key are primes.
operator_key.load_pem_private_key = functools.cache(load_pem_private_key)  # type: ignore[assignment, attr-defined]

NEEDED_BYTES = 2 * 1024**3
EMPTY, POPULATED = "template_empty", "template_populated"
_numbers = itertools.count()


class Server(Databases):
    """`world` describes the contents of the populated template."""

    def __init__(self, url: Callable[[str], str], world: World) -> None:
        super().__init__(url)
        self.world = world
        self._kept = {name: KeptDatabase(self, name, f"test_{os.getpid()}_{name}") for name in (EMPTY, POPULATED)}

    async def clone_of(self, template: str) -> str:
        """The name of a new database."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        await self.clone(template, name)
        return name

    @asynccontextmanager
    async def open(self, template: str, settings: Settings) -> AsyncIterator[Database]:
        """A database with the contents of the template. No other test uses it meanwhile."""
        kept = self._kept[template]
        if not kept.is_leased:
            async with kept.lease(settings) as database:
                yield database
            return
        name = await self.clone_of(template)
        database = await Database(self.url(name), settings).open()
        yield database
        await database.close()
        await self.drop(name)


def pytest_xdist_auto_num_workers() -> int:
    """More than there are cores: tests wait for other processes a third of their time."""
    return (os.cpu_count() or 1) + 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slowest", type=int, default=20, help="How many tests to list by CPU time.")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="Run the tests in the order that this number decides.")


# What is imported and collected stays: looking for garbage takes a seventh of the time until the first test runs.
gc.disable()


def pytest_collection_finish() -> None:
    """Garbage collections do not look at what was imported: they would take a seventh of the time of small tests."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
async def event_loop_of_tests() -> asyncio.AbstractEventLoop:
    """One for all tests of a process, since open connections belong to a loop."""
    return asyncio.get_running_loop()


@pytest.fixture(autouse=True)
def no_task_survives(event_loop_of_tests: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Tasks that a test has left running would work on the database of the next one."""
    before = asyncio.all_tasks(event_loop_of_tests)
    yield
    left = asyncio.all_tasks(event_loop_of_tests) - before
    for task in left:
        task.cancel()
    if left:
        event_loop_of_tests.run_until_complete(asyncio.wait(left))


@pytest.fixture(autouse=True)
def plain_tracebacks() -> Iterator[None]:
    """Tracebacks with local variables take seconds to print, and nothing else runs meanwhile."""
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.processors.add_log_level, renderer])
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Server]:
    """The first test process starts it, all share it, and the last one stops it."""
    shared = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        shared = shared.parent
    with _one_at_a_time(shared / "server.lock"):
        # Not below pytest's own folder: as root the server runs as another user, whom a second run would lock out.
        folder = fast_folder() / f"tonne-test-{hashlib.sha256(str(shared).encode()).hexdigest()[:12]}"
        # Creating and dropping a database scans all buffers.
        postmaster.MOST_SHARED_BUFFERS_MB = 64
        handle = start_server_in(folder)
        # Removed with the server: a process that starts it again makes the templates again.
        facts = folder / "world.json"
        if not facts.exists():
            facts.write_bytes(msgspec.json.encode(asyncio.run(_make_templates(Databases(handle.url)))))
    yield Server(handle.url, msgspec.json.decode(facts.read_bytes(), type=World))
    handle.close()
    if handle.postmaster.running() is None:
        shutil.rmtree(folder, ignore_errors=True)


# Nobody needs the data after a crash, and no test needs what these do in the background.
SERVER_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "io_method": "sync",
    "checkpoint_timeout": "1h",
    "max_wal_size": "1GB",
    "wal_level": "minimal",
    "max_connections": "200",
    "max_wal_senders": "0",
    "plan_cache_mode": "force_generic_plan",
}


def start_server_in(folder: Path) -> EmbeddedServer:
    server = postmaster.Postmaster(folder)
    if not server.data.exists():
        server.prepare()
        with (server.data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in SERVER_SETTINGS.items())
    return start_server(folder)


def fast_folder() -> Path:
    """In memory if there is room: creating and dropping a database for every test is slow on disks."""
    memory = Path("/dev/shm")  # noqa: S108 - the server makes a folder of its own in it
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > NEEDED_BYTES:
        return memory
    return Path(tempfile.gettempdir())


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def _make_templates(databases: Databases) -> World:
    await databases.create(EMPTY)
    await databases.clone(EMPTY, POPULATED)
    return await databases.fill(POPULATED, build_world)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Without caches and rate limits, with a key of the operator for PDFs, and patient: machines may be busy."""
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
        offset_pages_burst=1_000_000,
        secret_key=base64.b64encode(b"not so secret: for tests, 32 B.!").decode(),
        lock_timeout_s=60.0,
        statement_timeout_s=60.0,
        database_acquire_s=60.0,
        **shared_document_key(),
    )


@pytest.fixture
async def db(server: Server, settings: Settings) -> AsyncIterator[Database]:
    """A migrated, empty database."""
    async with server.open(EMPTY, settings) as database:
        yield database


@pytest.fixture
async def populated_db(server: Server, settings: Settings) -> AsyncIterator[Database]:
    """A database in which the world has been built."""
    async with server.open(POPULATED, settings) as database:
        yield database


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
    await services.metrics_endpoint.close()
    await services.webhooks.close()


@pytest.fixture
def app(services: Services) -> AsgiApp:
    """One for all clients of a test: building it takes longer than most requests."""
    return build_app(services)


@pytest.fixture
async def api(app: AsgiApp, world: World) -> AsyncIterator[ApiClient]:
    """The application in this process, called over HTTP with the test key of `ours`."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield ApiClient(client, world.ours_test.key)


@pytest.fixture
async def browser(app: AsgiApp) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key that keeps cookies and does not follow redirects."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield client


@pytest.fixture
def rows(services: Services) -> Callable[[str], Awaitable[list[dict[str, Any]]]]:
    async def fetch(statement: str) -> list[dict[str, Any]]:
        async with services.database.connection() as connection:
            return [dict(row) for row in await connection.fetch(statement)]

    return fetch
