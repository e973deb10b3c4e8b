"""The whole service through PgBouncer in transaction mode, with fewer server connections than clients."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import msgspec
import pytest

from tests.conftest import EMPTY, Server
from tests.integration.pgbouncer import pgbouncer
from tests.support.command import output_of, refusal_of, tonne
from tests.support.processes import HOST, Process, free_port
from tonne.platform.db.database import connect
from tonne.platform.db.session_settings import session_settings
from tonne.platform.settings.settings import Settings

SERVER_CONNECTIONS = 3
ORDERS = 40


@dataclass(frozen=True)
class Pooled:
    """A database, reached through PgBouncer and directly."""

    role: str
    url: str
    direct_url: str

    @property
    def settings(self) -> dict[str, str | Path | int]:
        return {
            "database_url": self.url,
            "database_direct_url": self.direct_url,
            "database_pooling": "transaction",
        }


@pytest.fixture
async def pooled(server: Server, tmp_path: Path) -> AsyncIterator[Pooled]:
    """The role has no settings of its own yet."""
    database = await server.clone_of(EMPTY)
    role = f"{database}_role"
    direct_url = server.url(database).replace("//postgres@", f"//{role}@")
    async with server.connection() as admin:
        await admin.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
    with pgbouncer(tmp_path, database, role, direct_url, default_pool_size=str(SERVER_CONNECTIONS)) as port:
        yield Pooled(role, f"postgresql://{role}@{HOST}:{port}/{database}", direct_url)
    await server.drop(database)
    async with server.connection() as admin:
        await admin.execute(f"DROP ROLE {role}")


async def _give_role_settings(server: Server, role: str) -> None:
    async with server.connection() as admin:
        for name, text in session_settings(Settings()).items():
            await admin.execute(f"ALTER ROLE {role} SET {name} = '{text}'")


async def test_a_role_without_time_limits_is_refused(pooled: Pooled, tmp_path: Path) -> None:
    done = tonne("worker", **pooled.settings, secret_key=secrets.token_urlsafe(32), data_dir=tmp_path)
    assert done.returncode == 1
    assert f"the database role {pooled.role} has no time limits" in done.stderr
    assert f"ALTER ROLE {pooled.role} SET statement_timeout = '10000';" in done.stderr


async def test_operations_c_the_service_runs_through_pgbouncer(pooled: Pooled, server: Server, tmp_path: Path) -> None:
    await _give_role_settings(server, pooled.role)
    port, data = free_port(), tmp_path / "data"
    settings: dict[str, str | Path | int] = {
        **pooled.settings,
        "data_dir": data,
        "port": port,
        "secret_key": secrets.token_urlsafe(32),
        # Longer than the test: only notifications wake the jobs.
        "worker_poll_s": 60,
    }
    process = Process("tonne", "serve", "--demo=empty", settings=settings, log=tmp_path / "tonne.log")
    try:
        process.wait_until_ready(port)
        demo: dict[str, Any] = msgspec.json.decode((data / "demo.json").read_bytes())
        await asyncio.to_thread(_use, port, demo["test"]["api_key"])
    finally:
        assert process.stop()
    log = (tmp_path / "tonne.log").read_text()
    assert '"level":"error"' not in log, log
    assert "prepared statement" not in log
    checked = tonne("doctor", **settings)
    assert checked.returncode in {0, 3}, checked.stdout


def _use(port: int, key: str) -> None:
    """Place orders from many threads and wait until the worker, which does not poll, has completed them."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"http://{HOST}:{port}", headers=headers, timeout=30) as client:

        def place(number: int) -> str:
            body = {"mass": {"amount": str(number + 1), "unit": "t"}, "idempotency_key": f"order {number}"}
            response = client.post("/v1/orders/by-mass", json=body)
            assert response.status_code == 201, response.text
            key: str = response.json()["idempotency_key"]
            return key

        with ThreadPoolExecutor(16) as threads:
            keys = list(threads.map(place, range(ORDERS)))
        assert keys == [f"order {number}" for number in range(ORDERS)], "each response is that of its own statement"
        deadline = time.monotonic() + 40
        while {order["status"] for order in _orders(client)} != {"complete"}:
            assert time.monotonic() < deadline, _orders(client)


def _orders(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/orders?limit=100").json()["data"]
    return found


async def test_commands_use_the_direct_url(pooled: Pooled) -> None:
    nowhere = {**pooled.settings, "database_url": f"postgresql://x@{HOST}:{free_port()}/x"}
    assert output_of("migrate", **nowhere) == "Nothing to do: the schema is up to date."
    assert output_of("org", "list", **nowhere) == output_of("org", "list", **pooled.settings)


async def test_a_wrong_setting_for_the_pooler_fails_at_once(pooled: Pooled) -> None:
    """Without `database_pooling`, PgBouncer refuses the parameters of the session."""
    with pytest.raises(asyncpg.PostgresError, match="unsupported startup parameter"):
        await connect(pooled.url, Settings())
    assert "TONNE_DATABASE_DIRECT_URL must be set" in refusal_of(
        "migrate", database_url=pooled.url, database_pooling="transaction"
    )
