"""A short form of `python -m chaos attack`: while others do their worst, no honest request fails."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from chaos.operations.attackers import ADDRESSES, TABS, TENANT_CLIENTS, Attack, Attacked
from chaos.operations.visitors import HALF_BODY, connect_from
from tests.conftest import POPULATED, Server
from tests.support.people import sign_in_owner
from tests.support.processes import HOST, Process, free_port

ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}
HALF_SENT = 250
HONEST = 8


@pytest.fixture
async def database(server: Server) -> str:
    return await server.clone_of(POPULATED)


@pytest.fixture
def port(database: str, server: Server, tmp_path: Path) -> Iterator[int]:
    """`tonne api` without limits per key. Its log has no errors afterwards."""
    port = free_port()
    settings = {
        "port": port,
        "data_dir": tmp_path / "data",
        "database_url": server.url(database),
        "secret_key": secrets.token_urlsafe(32),
        "rate_limit_per_second": 1_000_000,
        "rate_limit_burst": 1_000_000,
        # As patient as the honest client: machines may be busy.
        "database_acquire_s": 60,
        "statement_timeout_s": 60,
    }
    process = Process("tonne", "api", settings=settings, log=tmp_path / "api.log")
    try:
        process.wait_until_ready(port)
        yield port
    finally:
        process.stop()
    assert [line for line in process.log.read_text().splitlines() if '"level":"error"' in line] == []


async def test_no_honest_request_fails_while_others_do_their_worst(port: int, server: Server, database: str) -> None:
    world = server.world
    tenant = world.theirs_test
    async with server.connection(database) as tx:
        cookie = await sign_in_owner(tx, "owner@attackers.test", tenant.scope.organisation_id)
    attacked = Attacked(port, tenant.key, tenant.scope.organisation_id, tenant.scope.account_id, cookie)
    attack = Attack(attacked)
    headers = {"Authorization": f"Bearer {world.ours_test.key}"}
    async with (
        half_sent(port),
        httpx.AsyncClient(base_url=f"http://{HOST}:{port}", headers=headers, timeout=60) as http,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(attack.run())
        for _ in range(HONEST):
            placed = await http.post("/v1/orders/by-mass", json=ONE_TONNE)
            assert placed.status_code == 201, placed.text
            found = await http.get(f"/v1/orders/{placed.json()['id']}")
            assert (found.status_code, found.json()["id"]) == (200, placed.json()["id"])
        attack.stop.set()
    assert attack.statuses.total() >= TENANT_CLIENTS + TABS + ADDRESSES


@contextlib.asynccontextmanager
async def half_sent(port: int) -> AsyncIterator[None]:
    """More bodies than one address may have half sent, from that of the honest client."""
    writers = []
    try:
        for _ in range(HALF_SENT):
            _, writer = await connect_from(port, HOST)
            writer.write(HALF_BODY)
            writers.append(writer)
        yield
    finally:
        for writer in writers:
            writer.transport.abort()
