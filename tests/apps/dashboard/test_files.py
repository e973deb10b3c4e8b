"""Files are sent part by part: each part waits for its turn and is charged, and slow readers keep little."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.lookup import order_export
from tonne.apps.wiring.app import Services
from tonne.apps.workspace.statement_page import FILES_AT_ONCE
from tonne.platform.http import server
from tonne.platform.http.asgi import AsgiApp
from tonne.platform.http.errors import RateLimited

HELD = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"


class Reader:
    """Downloads a file, and takes a part only when it is told to."""

    def __init__(self, app: AsgiApp, path: str, cookie: str) -> None:
        self._app, self._path, self._cookie = app, path, cookie
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.content = b""
        self._takes = asyncio.Semaphore(0)
        self.task = asyncio.create_task(self._run())

    def take(self, parts: int) -> None:
        for _ in range(parts):
            self._takes.release()

    async def _run(self) -> None:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"tonne.test"), (b"cookie", self._cookie.encode())],
            "client": ("127.0.0.1", 1),
            "server": ("tonne.test", 80),
        }
        await self._app(scope, asyncio.Event().wait, self._send)  # type: ignore[arg-type]

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status.set_result(message["status"])
        elif message.get("more_body"):
            await self._takes.acquire()
            self.content += message["body"]


Download = Callable[[str], Reader]


@pytest.fixture
async def ann(services: Services, world: World, person: Callable[[], Person]) -> Person:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id)
    ann = person()
    await ann.sign_in("ann@ours.test")
    return ann


@pytest.fixture
def download(app: AsgiApp, ann: Person, world: World) -> Download:
    cookie = "; ".join(f"{name}={value}" for name, value in ann.http.cookies.items())
    base = f"/dashboard/test/{world.ours_test.scope.organisation_id}"
    return lambda path: Reader(app, base + path, cookie)


async def test_each_part_of_a_file_waits_for_its_turn_and_is_charged(
    services: Services, api: ApiClient, download: Download, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_export, "PAGE", 1)
    monkeypatch.setattr(server, "_PART_RETRY_S", 0)
    orders = [(await api.order())["id"] for _ in range(3)]
    admission, payers, costs = services.admission, list[str](), list[int]()
    entered, left = admission.enter, admission.leave

    async def enter(name: str, *, takes_place: bool = True) -> int:
        payers.append(name)
        # The process is busy when a part of the middle is due.
        if len(payers) == 4:
            raise RateLimited
        return await entered(name, takes_place=takes_place)

    def leave(name: str, cost: int, expected: int, *, has_place: bool = True) -> None:
        costs.append(cost)
        left(name, cost, expected, has_place=has_place)

    monkeypatch.setattr(admission, "enter", enter)
    monkeypatch.setattr(admission, "leave", leave)
    reader = download("/orders.csv")
    assert await reader.status == 200
    # While its client reads, it has no place.
    assert admission._running == 0
    reader.take(4)
    await reader.task
    assert [order_id.encode() in reader.content for order_id in orders] == [True] * 3
    # The request, the head, a part for each order and the end; one of them twice.
    assert len(payers) == 7
    assert len(set(payers)) == 1
    assert len(costs) == 6
    assert min(costs) > 0
    assert admission._running == 0


async def test_a_file_whose_first_part_is_refused_is_refused(
    services: Services, download: Download, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, calls = services.admission.enter, list[str]()

    async def enter(name: str, *, takes_place: bool = True) -> int:
        calls.append(name)
        if len(calls) == 2:
            raise RateLimited
        return await entered(name, takes_place=takes_place)

    monkeypatch.setattr(services.admission, "enter", enter)
    reader = download("/orders.csv")
    assert await reader.status == 429
    await reader.task


async def test_slow_readers_of_statements_keep_few_connections(
    services: Services, ann: Person, download: Download, world: World
) -> None:
    readers = [download("/statement/csv") for _ in range(FILES_AT_ONCE)]
    assert [await reader.status for reader in readers] == [200] * FILES_AT_ONCE
    readers.append(download("/statement/csv"))
    page = await ann.get(f"/dashboard/test/{world.ours_test.scope.organisation_id}/orders")
    assert page.status_code == 200
    assert not readers[-1].status.done()
    async with services.database.connection() as connection, asyncio.timeout(60):
        # A statement of theirs may still run.
        while await connection.fetchval(HELD) < FILES_AT_ONCE:
            continue
        assert await connection.fetchval(HELD) == FILES_AT_ONCE
    # One of them has gone.
    readers[0].task.cancel()
    assert await asyncio.wait_for(readers[-1].status, 60) == 200
    for reader in readers[1:]:
        reader.take(100)
        await reader.task
        assert b"balance" in reader.content
    async with services.database.connection() as connection, asyncio.timeout(60):
        while await connection.fetchval(HELD):
            continue
