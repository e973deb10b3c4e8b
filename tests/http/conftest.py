"""A real server process, for tests with sockets, large bodies, logs and concurrent requests."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import structlog

from tests.conftest import POPULATED, Server, _clone
from tests.support.api_client import ApiClient
from tests.support.world import World


@dataclass(frozen=True, slots=True)
class LiveServer:
    port: int
    database_url: str
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log_lines(self) -> list[str]:
        """The complete lines."""
        return self.log.read_text(encoding="utf-8").rpartition("\n")[0].split("\n")


@pytest.fixture(autouse=True)
def plain_tracebacks() -> Iterator[None]:
    """Tests here provoke internal errors; tracebacks with local variables take seconds to print."""
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.processors.add_log_level, renderer])
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def live_server(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """`tonne api` on a database of its own, with standard error in a file."""
    folder = tmp_path_factory.mktemp("live")
    database_url = server.url(asyncio.run(_clone(server, POPULATED)))
    live = LiveServer(_free_port(), database_url, folder / "stderr.log")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TONNE_")}
    environment |= {
        "TONNE_HOST": "127.0.0.1",
        "TONNE_PORT": str(live.port),
        "TONNE_DATA_DIR": str(folder / "data"),
        "TONNE_DATABASE_URL": database_url,
        "TONNE_RATE_LIMIT_PER_SECOND": "1000000",
        "TONNE_RATE_LIMIT_BURST": "1000000",
        "TONNE_FAILED_AUTH_BURST": "1000000",
    }
    with live.log.open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "tonne", "api"], env=environment, stderr=log, stdout=log)
        try:
            _wait_until_ready(live, process)
            yield live
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(live: LiveServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, live.log.read_text()
        try:
            if httpx.get(f"{live.url}/health/ready", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    pytest.fail(f"the server did not become ready: {live.log.read_text()}")


@pytest.fixture
async def live_api(live_server: LiveServer, world: World) -> AsyncIterator[ApiClient]:
    """The live server as `ours` in test mode sees it."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=live_server.url, timeout=30, limits=limits) as client:
        yield ApiClient(client, world.ours_test.key)
