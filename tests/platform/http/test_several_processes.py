"""`tonne api` with several processes: rate limits and caches hold across them, and they stop without a lost request."""

import asyncio
import http.client
import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.conftest import POPULATED, Server
from tests.support.command import wait_until
from tests.support.processes import HOST, Process, free_port
from tests.support.world import World
from tonne.platform.db.database import Connection
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.limits.shared_buckets import KEY_BYTES, KEY_FILE, LIMITS_VARIABLE

Start = Callable[..., Process]
ORDER = b'{"mass": {"amount": "1", "unit": "t"}}'


@pytest.fixture
def database_url(server: Server) -> str:
    return server.url(asyncio.run(server.clone_of(POPULATED)))


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def start(database_url: str, port: int, tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []
    common: dict[str, object] = {"port": port, "data_dir": tmp_path / "data", "database_url": database_url}
    common |= {"secret_key": secrets.token_urlsafe(32)}

    def start(**settings: object) -> Process:
        chosen = common | settings
        started.append(Process("tonne", "api", settings=chosen, log=tmp_path / "log"))
        started[-1].wait_until_ready(int(str(chosen["port"])))
        return started[-1]

    yield start
    for process in started:
        process.stop()


def status(port: int, key: str) -> int:
    """The status of a request on a new connection: the kernel distributes connections over the processes."""
    return httpx.get(f"http://{HOST}:{port}/v1/bundles", headers={"Authorization": f"Bearer {key}"}).status_code


def test_limits_and_revoked_keys_hold_across_processes(
    start: Start, port: int, world: World, database_url: str
) -> None:
    start(
        api_processes=3,
        rate_limit_per_second=0.001,
        rate_limit_burst=12,
        failed_auth_per_minute=0.01,
        failed_auth_burst=9,
    )
    answers = [status(port, world.ours_test.key) for _ in range(40)]
    assert answers == [200] * 12 + [429] * 28
    assert status(port, world.theirs_test.key) == 200

    revoke(database_url, world.theirs_test.key_id)
    # Each process asks the database again within key_refresh_s (2 s), and counts a wrong key until the limit.
    wait_until(lambda: [status(port, world.theirs_test.key) for _ in range(12)] == [429] * 12, 20, "all refuse the key")
    assert status(port, "tonne_test_wrong") == 429


def test_limits_hold_across_machines(start: Start, world: World, database_url: str) -> None:
    ports = free_port(), free_port()
    for port in ports:
        start(
            port=port,
            api_processes=2,
            rate_limit_per_second=0.001,
            rate_limit_burst=12,
            failed_auth_per_minute=0.01,
            failed_auth_burst=5,
        )

    def use_up(key: str, limit: str, *, times: int, allowed: int) -> None:
        assert [status(ports[0], key) for _ in range(times + 1)] == [allowed] * times + [429]
        # The second machine does not know of them yet. Its first report tells it.
        assert status(ports[1], key) == allowed
        wait_until(lambda: level_of(database_url, limit) < 0, 30, "both have reported")
        wait_until(lambda: status(ports[1], key) == 429, 10, "the second machine refuses it")

    use_up(world.ours_test.key, "keys", times=12, allowed=200)
    assert [status(port, world.theirs_test.key) for port in ports] == [200, 200]
    use_up("tonne_test_wrong", "failed_auth", times=5, allowed=401)


def level_of(database_url: str, limit: str) -> float:
    query = f"SELECT coalesce(min(level), 1) FROM rate_limits WHERE name = '{limit}'"  # noqa: S608 - of a test
    return float(ask(database_url, query))


def revoke(database_url: str, key_id: str) -> None:
    ask(database_url, f"UPDATE api_keys SET revoked_at = now() WHERE id = '{key_id}' RETURNING true")  # noqa: S608


def ask(database_url: str, query: str) -> Any:
    async def run() -> Any:
        connection: Connection = await asyncpg.connect(database_url)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(run())


def test_operations_20_a_server_that_stops_finishes_its_requests(start: Start, port: int, world: World) -> None:
    api = start(api_processes=2, drain_s=1.5)
    idle, half_sent = (http.client.HTTPConnection(HOST, port, timeout=20) for _ in range(2))
    authorised = {"Authorization": f"Bearer {world.ours_test.key}", "Content-Type": "application/json"}
    assert get(idle, "/v1/bundles", authorised).status == 200
    api.terminate()
    wait_until(lambda: httpx.get(f"http://{HOST}:{port}/health/ready").status_code == 503, 10, "it is not ready")

    # It serves requests meanwhile, on new and on open connections, and closes them afterwards.
    # The process of this connection may hear of it a moment later than the one that was asked whether it is ready.
    def is_closing() -> bool:
        answer = get(idle, "/v1/bundles", authorised)
        assert answer.status == 200
        return answer.getheader("connection") == "close"

    wait_until(is_closing, 10, "open connections are not closed")
    half_sent.putrequest("POST", "/v1/orders/by-mass")
    for name, value in (authorised | {"Content-Length": str(len(ORDER))}).items():
        half_sent.putheader(name, value)
    half_sent.endheaders(ORDER[:10])
    wait_until(lambda: is_refused(port), 20, "the listener is closed")
    assert api.running
    half_sent.send(ORDER[10:])
    answer = half_sent.getresponse()
    assert answer.status == 201
    assert json.load(answer)["id"].startswith("ord_")
    assert api.wait(20) == 0
    # Lines of requests are collected for a moment. The last one is written, too.
    lines = [json.loads(line) for line in api.log.read_text().splitlines()]
    assert str(answer.getheader("x-request-id")) in [line.get("request_id") for line in lines]


def test_a_second_signal_ends_the_drain(start: Start, port: int) -> None:
    api = start(drain_s=600)
    api.terminate()
    wait_until(lambda: httpx.get(f"http://{HOST}:{port}/health/ready").status_code == 503, 10, "it is not ready")
    api.terminate()
    assert api.wait(20) == 0


def get(connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    response.read()
    return response


def is_refused(port: int) -> bool:
    try:
        httpx.get(f"http://{HOST}:{port}/health/live")
    except httpx.TransportError:
        return True
    return False


class TestSharedBuckets:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / KEY_FILE).write_bytes(b"k" * KEY_BYTES)
        monkeypatch.setenv(LIMITS_VARIABLE, str(tmp_path))

    def test_two_processes_share_a_limit(self) -> None:
        now = [100.0]
        first, second = (TokenBuckets("one", 1, 3, lambda: now[0]) for _ in range(2))
        assert [first.consume("a").remaining, second.consume("a").remaining, first.consume("a").remaining] == [2, 1, 0]
        assert not second.consume("a").allowed
        assert second.consume("b").remaining == 2
        assert TokenBuckets("two", 1, 3).consume("a").remaining == 2
        now[0] += 2
        assert second.consume("a").allowed
        assert first.consume("a").allowed
        assert not first.consume("a").allowed

    def test_a_clock_that_is_a_little_behind_takes_nothing_away(self) -> None:
        TokenBuckets("one", 1, 3, lambda: 100.0).consume("a")
        assert TokenBuckets("one", 1, 3, lambda: 99.9).consume("a").remaining == 1

    def test_a_client_that_is_limited_stays_so_whoever_else_comes(self) -> None:
        """Its row cannot be replaced: not by many, and not by those that were chosen to meet it."""
        now = [100.0]
        limit = TokenBuckets("one", 0.01, 3, lambda: now[0])
        while limit.consume("victim").allowed:
            pass
        for number in range(100_000):
            limit.consume(f"client {number}")
        assert not limit.consume("victim").allowed
        # Those that came too late share a bucket. Nobody was refused because the table is full, or gets a burst more.
        allowed = sum(limit.consume(f"late {number}").allowed for number in range(1000))
        assert allowed > 900
        now[0] += 300
        assert limit.consume("victim").remaining == 2

    def test_the_places_of_clients_cannot_be_computed(self, tmp_path: Path) -> None:
        levels = []
        for key in (b"k", b"l"):
            (tmp_path / KEY_FILE).write_bytes(key * KEY_BYTES)
            limit = TokenBuckets(f"limit {key!r}", 1, 3)
            limit.consume("a")
            levels.append((tmp_path / f"limit {key!r}").read_bytes())
        assert levels[0].lstrip(b"\0")[:8] != levels[1].lstrip(b"\0")[:8]
