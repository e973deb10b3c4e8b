"""Two `tonne api` behind nginx and HAProxy are restarted one after the other, under load: no request fails."""

import asyncio
import contextlib
import secrets
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import asyncpg
import pytest

from tests.conftest import POPULATED, Server
from tests.integration.proxies import Proxy
from tests.support.processes import HOST, Process, free_port
from tests.support.tls import Authority
from tests.support.world import World
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import new_id

# For each proxy: clients that keep their connection, and clients that open one for each request.
KEEPING, OPENING = 3, 1
THINK_S = 0.02
MIN_REQUESTS = 200


class Load:
    """Clients that order and read through a proxy until they are stopped. `answers` counts what they got."""

    def __init__(self, proxy: Proxy, key: str) -> None:
        self._url = f"https://{HOST}:{proxy.https_port}"
        self._tls = ssl.create_default_context(cafile=proxy.authority.ca_file)
        self._headers = {"Authorization": f"Bearer {key}"}
        self._stop = asyncio.Event()
        self.answers: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            for keeps in [True] * KEEPING + [False] * OPENING:
                tasks.create_task(self._send(keeps=keeps))
            yield
            self._stop.set()

    async def _send(self, *, keeps: bool) -> None:
        connector = aiohttp.TCPConnector(ssl=self._tls, force_close=not keeps, limit=1)
        async with aiohttp.ClientSession(self._url, connector=connector, headers=self._headers) as http:
            while not self._stop.is_set():
                body = {"mass": {"amount": "60", "unit": "kg"}, "idempotency_key": new_id("key")}
                await self._count("order", http.post("/v1/orders/by-mass", json=body))
                await self._count("read", http.get("/v1/orders?limit=1"))
                await asyncio.sleep(THINK_S)

    async def _count(self, kind: str, request: contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]) -> None:
        try:
            async with request as response:
                await response.read()
                self.answers[f"{kind} {response.status}"] += 1
        except (aiohttp.ClientError, TimeoutError) as error:
            self.answers[f"{kind} {error!r}"] += 1


class Machines:
    """`tonne api` on two ports, with two processes each and the default time to drain."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.ports = (free_port(), free_port())
        self._folder = folder
        self._settings = {
            "database_url": database_url,
            "data_dir": folder / "data",
            "secret_key": secrets.token_urlsafe(32),
            "api_processes": 2,
            "database_connections": 4,
            "trusted_proxies": HOST,
            "rate_limit_per_second": 1_000_000,
            "rate_limit_burst": 1_000_000,
            "drain_s": Settings().drain_s,
        }
        self._processes: dict[int, Process] = {}

    def start(self, port: int) -> None:
        settings = self._settings | {"port": port}
        self._processes[port] = Process("tonne", "api", settings=settings, log=self._folder / "log")
        self._processes[port].wait_until_ready(port)

    def restart(self, port: int) -> None:
        self._processes[port].terminate()
        assert self._processes[port].wait(60) == 0, self._log()
        self.start(port)

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
            # A second signal ends the time to drain.
            process.stop()

    def _log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8")[-2000:]


@pytest.fixture
def database_url(server: Server) -> str:
    return server.url(asyncio.run(server.clone_of(POPULATED)))


@pytest.fixture
def machines(database_url: str, tmp_path: Path) -> Iterator[Machines]:
    machines = Machines(database_url, tmp_path)
    try:
        for port in machines.ports:
            machines.start(port)
        yield machines
    finally:
        machines.stop()


@pytest.fixture
def proxies(machines: Machines, tmp_path: Path) -> Iterator[list[Proxy]]:
    """nginx and HAProxy, in front of the same servers."""
    found = []
    for name in ("nginx", "haproxy"):
        folder = tmp_path / name
        folder.mkdir()
        found.append(Proxy(folder, Authority(folder), machines.ports, free_port(), free_port()))
    with found[0].nginx(), found[1].haproxy():
        yield found


async def test_no_request_fails_while_all_servers_are_restarted(
    machines: Machines, proxies: list[Proxy], world: World, database_url: str
) -> None:
    loads = [Load(proxy, world.ours_test.key) for proxy in proxies]
    async with contextlib.AsyncExitStack() as running:
        for load in loads:
            await running.enter_async_context(load.running())
        for port in machines.ports:
            await asyncio.to_thread(machines.restart, port)
    for load in loads:
        assert set(load.answers) == {"order 201", "read 200"}, load.answers
        assert load.answers.total() >= MIN_REQUESTS
    ordered = sum(load.answers["order 201"] for load in loads)
    assert await _count_orders(database_url) == ordered


async def _count_orders(database_url: str) -> int:
    connection: Connection = await asyncpg.connect(database_url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM orders"))
    finally:
        await connection.close()
