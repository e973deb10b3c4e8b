"""What every benchmark stands on: the embedded PostgreSQL, the tenants, the server under test, the load process."""

import contextlib
import http.client
import itertools
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import psutil

from bench.load import Load, Outcome, Shot, WrongAnswer, fire
from bench.server import BODIES_VARIABLE
from bench.tenants import Tenant, open_tenants
from tonne.db.embedded import DATABASE, ensure_database, start_server
from tonne.db.migrate import migrate
from tonne.db.pool import Connection

_ROOT = Path(__file__).resolve().parent.parent
_READY_WITHIN_S = 30.0
_STOP_WITHIN_S = 20.0


BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tonne'"


@dataclass(frozen=True, slots=True)
class Stage:
    url: str
    port: int
    tenants: list[Tenant]
    bodies: Path
    server: subprocess.Popen[bytes]
    # One process of its own for the load, so that it never waits for the one that coordinates.
    load_process: ProcessPoolExecutor
    _loads: Iterator[int] = field(default_factory=itertools.count)

    def key_prefix(self) -> str:
        """A new one for each load, always of the same length: all idempotency keys are as long as each other."""
        return f"load-{next(self._loads):06d}-"

    def fire(self, shots: Sequence[Shot], *, connections: int, warm_up_s: float, seconds: float) -> Outcome:
        load = Load(
            port=self.port,
            connections=connections,
            warm_up_s=warm_up_s,
            seconds=seconds,
            shots=shots,
            key_prefix=self.key_prefix(),
        )
        return self.load_process.submit(fire, load).result()

    def fetch(self, shot: Shot) -> bytes:
        """The body of one answer, outside of every measurement."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(shot.head)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            body = answer.read()
        if answer.status != shot.status:
            raise WrongAnswer(f"Expected status {shot.status}, got {answer.status}: {body.decode()}")
        return body

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        connection: Connection = await asyncpg.connect(self.url, server_settings={"jit": "off"})
        try:
            yield connection
        finally:
            await connection.close()

    async def settle(self) -> None:
        """Have the database do now what it would otherwise do behind the next measurement, half of it or all."""
        async with self.connection() as connection:
            await connection.execute("VACUUM ANALYZE")
            await connection.execute("CHECKPOINT")

    def serving(self) -> psutil.Process:
        """The process that answers: the largest one below the command, which itself only watches."""
        processes = psutil.Process(self.server.pid).children(recursive=True)
        return max(processes, key=lambda process: process.memory_info().rss)

    async def cpu_s_by_process(self) -> dict[int, float]:
        """What the server and each of its connections to the database have used so far."""
        async with self.connection() as connection:
            rows = await connection.fetch(BACKENDS)
        processes = [self.serving(), *(psutil.Process(row["pid"]) for row in rows)]
        return {process.pid: sum(process.cpu_times()[:2]) for process in processes}


@contextlib.asynccontextmanager
async def set_stage() -> AsyncIterator[Stage]:
    """Everything in a new folder beside the data of `make run`, on the same disk; gone afterwards."""
    folder = _make_folder()
    postgres = start_server(folder / "postgres")
    try:
        url = postgres.get_uri(DATABASE)
        tenants = await _furnish(url)
        (bodies := folder / "bodies").mkdir()
        port = _free_port()
        with (
            _serving(url, port, bodies, folder / "api.log") as server,
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as load_process,
        ):
            yield Stage(url, port, tenants, bodies, server, load_process)
    finally:
        postgres.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _make_folder() -> Path:
    """Open to others, since PostgreSQL runs as another user when we are root."""
    (_ROOT / "var").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=_ROOT / "var"))
    folder.chmod(0o755)
    return folder


async def _furnish(url: str) -> list[Tenant]:
    await ensure_database(url)
    connection: Connection = await asyncpg.connect(url)
    try:
        await migrate(connection)
        async with connection.transaction():
            return await open_tenants(connection)
    finally:
        await connection.close()


@contextlib.contextmanager
def _serving(url: str, port: int, bodies: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`tonne api` with its defaults, except that no client is slowed down by the rate limit."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TONNE_")} | {
        "TONNE_DATABASE_URL": url,
        "TONNE_PORT": str(port),
        "TONNE_RATE_LIMIT_PER_SECOND": "1000000",
        "TONNE_RATE_LIMIT_BURST": "1000000",
        BODIES_VARIABLE: str(bodies),
    }
    with log.open("wb") as log_file:
        server = subprocess.Popen(
            [sys.executable, "-m", "bench.server"],
            cwd=_ROOT,
            env=environment,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
        )
    try:
        _wait_until_ready(server, port, log)
        yield server
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _wait_until_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", "/health/ready")
            if connection.getresponse().status == 200:
                connection.close()
                return
        time.sleep(0.1)
    raise RuntimeError(f"The server did not start:\n{log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
