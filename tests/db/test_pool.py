"""Transactions: return commits, raise rolls back, and nothing waits for ever."""

import asyncio

import asyncpg
import pytest

from tests.conftest import Server
from tonne.base.settings import Settings
from tonne.db.pool import Database

INSERT = "INSERT INTO organisations (id, name, created_at) VALUES ($1, 'x', now())"
COUNT = "SELECT count(*) FROM organisations"


async def _count(db: Database) -> int:
    async with db.connection() as connection:
        count: int = await connection.fetchval(COUNT)
    return count


async def test_returning_commits_and_raising_rolls_back(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.execute(INSERT, "org_kept")
    with pytest.raises(asyncpg.UniqueViolationError):  # noqa: PT012 - the first insert succeeds, the second fails
        async with db.transaction() as tx:
            await tx.execute(INSERT, "org_lost")
            await tx.execute(INSERT, "org_kept")
    assert await _count(db) == 1


async def test_a_cancelled_transaction_rolls_back(db: Database) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with db.transaction() as tx:
            await tx.execute(INSERT, "org_lost")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await _count(db) == 0


async def test_a_snapshot_shows_one_moment_and_cannot_write(db: Database) -> None:
    async with db.snapshot() as snapshot:
        before = await snapshot.fetchval(COUNT)
        async with db.transaction() as tx:
            await tx.execute(INSERT, "org_new")
        assert await snapshot.fetchval(COUNT) == before
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await snapshot.execute(INSERT, "org_never")
    assert await _count(db) == before + 1


async def test_a_connection_comes_back_clean_after_a_failure(db: Database) -> None:
    for _ in range(40):
        with pytest.raises(asyncpg.UndefinedTableError):
            async with db.transaction() as tx:
                await tx.execute("SELECT 1 FROM nowhere")
    assert await _count(db) == 0


@pytest.fixture
def settings() -> Settings:
    return Settings(statement_timeout_s=0.2, database_connections=2)


async def test_a_statement_that_takes_too_long_is_given_up(db: Database) -> None:
    async with db.connection() as connection:
        with pytest.raises(asyncpg.QueryCanceledError):
            await connection.execute("SELECT pg_sleep(5)")


async def test_a_transaction_that_does_nothing_for_too_long_is_ended(db: Database) -> None:
    """Else one that hangs would hold its locks, and everybody who wants them, for ever."""
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):  # noqa: PT012 - the server ends it while we wait
        async with db.transaction() as tx:
            await tx.execute(INSERT, "org_lost")
            await asyncio.sleep(0.7)
            await tx.execute(COUNT)
    assert await _count(db) == 0


async def test_more_work_than_connections_waits_its_turn(db: Database) -> None:
    async def work(number: int) -> None:
        async with db.transaction() as tx:
            await tx.execute(INSERT, f"org_{number}")

    await asyncio.gather(*(work(number) for number in range(30)))
    assert await _count(db) == 30


async def test_times_come_back_in_utc(db: Database) -> None:
    async with db.connection() as connection:
        assert await connection.fetchval("SHOW TimeZone") == "UTC"


async def test_using_a_database_that_is_not_open_is_said_plainly(server: Server, settings: Settings) -> None:
    with pytest.raises(RuntimeError, match="not open"):
        _ = Database(server.url("postgres"), settings).pool
