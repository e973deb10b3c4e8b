"""A real server process, for tests with sockets, large bodies, logs and concurrent requests."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.conftest import POPULATED, Server
from tests.support.api_client import ApiClient
from tests.support.processes import Process, free_port
from tests.support.world import World

METRICS_TOKEN = "a-token-for-the-metrics"  # noqa: S105 - of a test


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
        return self.log.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture(scope="session")
def live_server(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """`tonne api` on a database of its own, with standard error in a file."""
    folder = tmp_path_factory.mktemp("live")
    database_url = server.url(asyncio.run(server.clone_of(POPULATED)))
    live = LiveServer(free_port(), database_url, folder / "stderr.log")
    settings = {
        "port": live.port,
        "data_dir": folder / "data",
        "database_url": database_url,
        "secret_key": secrets.token_urlsafe(32),
        "rate_limit_per_second": 1_000_000,
        "rate_limit_burst": 1_000_000,
        "failed_auth_burst": 1_000_000,
        "metrics_token": METRICS_TOKEN,
        # A burst of requests waits for longer on a machine that is busy with other tests.
        "database_acquire_s": 60,
    }
    process = Process("tonne", "api", settings=settings, log=live.log)
    try:
        process.wait_until_ready(live.port)
        yield live
    finally:
        process.stop()


_documents: list[bytes] = []


@pytest.fixture
async def openapi_json(api: ApiClient) -> bytes:
    """The OpenAPI document, of the first test of a process that needs it: it is always the same, and takes long."""
    if not _documents:
        answer = await api.http.get("/openapi.json")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        _documents.append(answer.content)
    return _documents[0]


@pytest.fixture
async def live_api(live_server: LiveServer, world: World) -> AsyncIterator[ApiClient]:
    """The live server as `ours` in test mode sees it."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=live_server.url, timeout=30, limits=limits) as client:
        yield ApiClient(client, world.ours_test.key)
