"""What every benchmark uses: the embedded PostgreSQL, tenants, the server under test, a worker, a load process."""

import asyncio
import base64
import contextlib
import http.client
import itertools
import multiprocessing
import random
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import asyncpg
import psutil
import uvloop

from bench.load import Outcome, PreparedRequest, UnexpectedResponse, post, run_load
from bench.report import NotMeasured
from bench.tenants import Tenant, open_tenants
from tests.support.postgres import PostgresServer
from tests.support.processes import HOST, ROOT, Process, free_port
from tonne.apps.cli.operations.doctor import examine
from tonne.platform.db.database import Connection
from tonne.supply.certificates.proofs.log_invariants import INVARIANTS as LOG_INVARIANTS

P = ParamSpec("P")
T = TypeVar("T")
DATABASE = "bench"
METADATA = '{"invoice":"A-17","cost_centre":4711}'
DURABLE = ("fsync", "synchronous_commit", "full_page_writes")
_RNG = random.Random(20261115)
_POLL_S = 0.03
# All processes on the database must have the same key.
SECRET_KEY = base64.b64encode(bytes(32)).decode()
_STARTED_WITHIN_S = 30.0
_DONE_WITHIN_S = 120.0

# Copied orders, and those that are undone and written again, are not in the log.
OF_THE_LOG = frozenset(each.name for each in LOG_INVARIANTS)

BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND (usename = $2) = $3"
# A user of its own: connections that the server opens while the worker runs do not count as the worker's.
WORKER_USER = "worker"
MAKE_WORKER_USER = f"CREATE ROLE {WORKER_USER} SUPERUSER LOGIN"


@dataclass(slots=True)
class Environment:
    url: str
    port: int
    tenants: list[Tenant]
    folder: Path
    server: Process
    postgres: PostgresServer
    # The settings of the server.
    settings: Mapping[str, object]
    # The load runs in a process of its own, so that it never waits for the coordinating one.
    load_process: ProcessPoolExecutor
    # How many rows have been copied so far: copies are numbered.
    copied: int = 0
    # The time from one copied order to the next.
    copy_interval_ms: int = 1000
    # The name of the server's connections at the database.
    application_name: str = "tonne"
    _loads: Iterator[int] = field(default_factory=itertools.count)

    def start_server(self) -> None:
        """Start the server again after `server.stop()`."""
        self.server = _start_server(self.settings, self.folder)

    def key_prefix(self) -> str:
        """A new prefix for each load. All have the same length, so all idempotency keys do."""
        return f"load-{next(self._loads):06d}-"

    def in_load_process(
        self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run a coroutine function in the load process, on an event loop of its own."""
        return self.load_process.submit(_run, partial(function, *arguments, **options)).result()

    def run_load(
        self,
        requests: list[PreparedRequest],
        *,
        connections: int,
        seconds: float,
        warm_up_s: float = 0.0,
        per_second: float | None = None,
    ) -> Outcome:
        return self.in_load_process(
            run_load,
            self.port,
            requests,
            self.key_prefix(),
            connections=connections,
            warm_up_s=warm_up_s,
            seconds=seconds,
            per_second=per_second,
        )

    async def run_measured_load(
        self, requests: list[PreparedRequest], *, connections: int, seconds: float, warm_up_s: float = 0.0
    ) -> tuple[Outcome, float]:
        """With the CPU time per request of the server and its database connections, in microseconds."""
        before = await self.server_cpu_s()
        outcome = self.run_load(requests, connections=connections, seconds=seconds, warm_up_s=warm_up_s)
        used_s = await self.server_cpu_s() - before
        return outcome, used_s / outcome.answered * 1e6

    def create_requests(self, tenants: Sequence[Tenant] = (), count: int = 5_000) -> list[PreparedRequest]:
        """Requests that create orders, for these or all tenants in random order: some meet at one stream."""
        tenants = tenants or self.tenants
        by_key = {
            tenant.key: post(
                "/v1/orders/by-estimate",
                tenant.key,
                f'{{"estimate_id":"{tenant.estimate_id}","metadata":{METADATA},"idempotency_key":"',
                '"}',
            )
            for tenant in tenants
        }
        return [by_key[_RNG.choice(tenants).key] for _ in range(count)]

    def fetch(self, request: PreparedRequest) -> bytes:
        """Send one request outside of all measurements and return the body of its response."""
        return self._fetch(request)[0]

    def fetch_etag(self, request: PreparedRequest) -> str:
        etag = self._fetch(request)[1].getheader("ETag")
        if etag is None:
            raise UnexpectedResponse("The response has no ETag.")
        return etag

    def _fetch(self, request: PreparedRequest) -> tuple[bytes, http.client.HTTPResponse]:
        with socket.create_connection((HOST, self.port), timeout=30) as connection:
            connection.sendall(request.head)
            response = http.client.HTTPResponse(connection)
            response.begin()
            body = response.read()
        if response.status != request.status:
            raise UnexpectedResponse(f"Expected status {request.status}, got {response.status}: {body.decode()}")
        return body, response

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        connection: Connection = await asyncpg.connect(self.url, server_settings={"jit": "off"})
        try:
            yield connection
        finally:
            await connection.close()

    async def require_durable(self) -> None:
        async with self.connection() as connection:
            for setting in DURABLE:
                if await connection.fetchval("SELECT current_setting($1)", setting) != "on":
                    raise NotMeasured(f"Commits are not durable: {setting} is off.")

    async def require_consistent(self) -> None:
        """All invariants that `tonne doctor` checks hold, except those of the transparency log."""
        async with self.connection() as connection, connection.transaction():
            found = await examine(connection)
        breaches = {name: places for name, places in found.items() if name not in OF_THE_LOG}
        if breaches:
            shown = {name: places[:3] for name, places in breaches.items()}
            raise NotMeasured(f"The doctor found inconsistent data: {shown}.")

    async def vacuum(self) -> None:
        """Vacuum, analyse and checkpoint now, so that the database does not do it during a measurement."""
        async with self.connection() as connection:
            await connection.execute("VACUUM ANALYZE")
            await connection.execute("CHECKPOINT")

    async def wait_while(self, waiting: str, *values: object) -> float:
        """Run this query until its value is false or 0. Returns the time at which it was."""
        async with self.connection() as connection:
            # Keep polling cheap, whatever the statistics say.
            await connection.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
            statement = await connection.prepare(waiting)
            deadline = time.perf_counter() + _DONE_WITHIN_S
            while left := await statement.fetchval(*values):
                if time.perf_counter() > deadline:
                    raise NotMeasured(f"The worker was not done after {_DONE_WITHIN_S:.0f} s ({left} left).")
                await asyncio.sleep(_POLL_S)
        return time.perf_counter()

    @contextlib.asynccontextmanager
    async def worker(self, **settings: object) -> AsyncIterator["Worker"]:
        """A `tonne worker` with default settings except for these, connected to the database."""
        url = self.url.replace("//postgres@", f"//{WORKER_USER}@")
        settings = {"database_url": url, "data_dir": self.folder, "secret_key": SECRET_KEY, **settings}
        process = Process("tonne", "worker", "--stop-with-parent", settings=settings, log=self.folder / "worker.log")
        try:
            deadline = time.monotonic() + _STARTED_WITHIN_S
            while not await self.backends(of_worker=True):
                if not process.running or time.monotonic() > deadline:
                    raise NotMeasured(f"The worker did not start:\n{process.log.read_text()[-2000:]}")
                await asyncio.sleep(_POLL_S)
            yield Worker(self, process)
            if not process.running:
                raise NotMeasured("The worker has stopped.")
        finally:
            process.stop()

    async def backends(self, *, of_worker: bool = False) -> frozenset[int]:
        """The processes of the database that serve the server, or the worker."""
        async with self.connection() as connection:
            rows = await connection.fetch(BACKENDS, self.application_name, WORKER_USER, of_worker)
        return frozenset(row["pid"] for row in rows)

    def serving_process(self) -> psutil.Process:
        """The process that serves requests: the largest child of the command if that only supervises it."""
        command = psutil.Process(self.server.pid)
        return max(command.children(recursive=True) or [command], key=lambda process: process.memory_info().rss)

    async def server_cpu_s(self) -> float:
        return sum((await self.cpu_s_by_process()).values())

    async def cpu_s_by_process(self) -> dict[int, float]:
        """CPU time used by the server and by each of its database connections so far."""
        return cpu_s_by_process([self.serving_process().pid, *await self.backends()])


@dataclass(frozen=True, slots=True)
class Worker:
    environment: Environment
    process: Process

    async def cpu_s(self) -> float:
        """CPU time used by the worker and its database connections so far."""
        own = await self.environment.backends(of_worker=True)
        return sum(cpu_s_by_process([self.process.pid, *own]).values())


def cpu_s_by_process(pids: Sequence[int]) -> dict[int, float]:
    return {pid: float(sum(psutil.Process(pid).cpu_times()[:2])) for pid in pids}


def _run(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return uvloop.run(function())


def _new_folder(parent: Path) -> Path:
    parent.mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="bench-", dir=parent))


def _start_server(settings: Mapping[str, object], folder: Path) -> Process:
    server = Process("bench.server", settings=settings, log=folder / "api.log")
    try:
        server.wait_until_ready(int(str(settings["port"])))
    except BaseException:
        server.stop()
        raise
    return server


@contextlib.asynccontextmanager
async def open_environment(parent: Path = ROOT / "var") -> AsyncIterator[Environment]:
    """Everything is in a new folder, by default on the disk of the data of `make run`. It is removed afterwards."""
    folder = _new_folder(parent)
    postgres = PostgresServer(folder / "postgres")
    try:
        url, port = postgres.url(DATABASE), free_port()
        await postgres.create(DATABASE)
        tenants = await postgres.fill(DATABASE, open_tenants)
        settings = {
            "database_url": url,
            "data_dir": folder,
            "port": port,
            "secret_key": SECRET_KEY,
            "rate_limit_per_second": 1_000_000,
            "rate_limit_burst": 1_000_000,
        }
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as load_process:
            server = _start_server(settings, folder)
            environment = Environment(url, port, tenants, folder, server, postgres, settings, load_process)
            try:
                async with environment.connection() as connection:
                    await connection.execute(MAKE_WORKER_USER)
                yield environment
            finally:
                environment.server.stop()
    finally:
        await postgres.close()
        shutil.rmtree(folder, ignore_errors=True)
