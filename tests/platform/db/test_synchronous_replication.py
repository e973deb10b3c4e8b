"""Commits that wait for a replica: one that exceeds its time limit is not confirmed, and nobody sees it yet."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.postgres import PostgresServer
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
NUMBERS = "SELECT count(*) FROM numbers"


async def _until_true(connection: Connection, query: str) -> None:
    async with asyncio.timeout(30):
        while not await connection.fetchval(query):
            pass


@pytest.fixture
async def without_replica(tmp_path: Path) -> AsyncIterator[PostgresServer]:
    """A server whose synchronous replica is away, so that every commit waits."""
    server = PostgresServer(tmp_path / "postgres")
    async with server.connection() as admin:
        await admin.execute("CREATE TABLE numbers (n integer)")
        await admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'away'")
    # After a mere reload, commits do not wait until another process of the server has read the setting, too.
    await server.close()
    await server.start()
    yield server
    await server.stop_hard()


@pytest.mark.parametrize("gives_up", ["time limit", "cancelled"])
async def test_an_unreplicated_commit_stays_invisible(without_replica: PostgresServer, gives_up: str) -> None:
    """A request to cancel would end the wait: the row would be visible, and lost if the primary failed now."""
    settings = Settings(statement_timeout_s=0.3 if gives_up == "time limit" else 60.0)
    database = await Database(without_replica.url("postgres"), settings).open()

    async def insert() -> None:
        async with database.transaction() as tx:
            await tx.execute("INSERT INTO numbers VALUES (1)")

    inserting = asyncio.create_task(insert())
    async with without_replica.connection() as admin:
        await _until_true(admin, WAITING)
        if gives_up == "cancelled":
            inserting.cancel()
        with pytest.raises((TimeoutError, asyncio.CancelledError)):
            await inserting
        await database.close()
        assert await admin.fetchval(NUMBERS) == 0
        assert await admin.fetchval(WAITING) == 1
        await admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await admin.execute("SELECT pg_reload_conf()")
        await _until_true(admin, NUMBERS)


async def test_a_waiting_commit_is_not_ended_by_the_statement_timeout(without_replica: PostgresServer) -> None:
    """Otherwise PostgreSQL would confirm, with a mere warning, what no replica has."""
    connection = await asyncpg.connect(
        without_replica.url("postgres"), server_settings={"statement_timeout": "100", "lock_timeout": "100"}
    )
    with pytest.raises(TimeoutError):
        await connection.execute("INSERT INTO numbers VALUES (1)", timeout=1.0)
    connection.terminate()
