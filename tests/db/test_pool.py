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


async def test_a_connection_that_was_left_in_the_middle_of_a_statement_is_not_used_again(db: Database) -> None:
    async with db.connection() as connection:
        first = await connection.fetchval("SELECT pg_backend_pid()")

    async def work() -> None:
        async with db.connection() as connection:
            await connection.execute("SELECT pg_sleep(0.1)")

    task = asyncio.create_task(work())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with db.connection() as connection:
        assert await connection.fetchval("SELECT pg_backend_pid()") != first


async def test_who_gave_up_waiting_takes_no_connection_away(db: Database) -> None:
    async with db.connection(), db.connection():
        waiting = [asyncio.create_task(_count(db)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting[1].cancel()
    assert await waiting[2] == 0
    await asyncio.gather(*(_count(db) for _ in range(10)))


async def test_connections_that_the_server_cut_are_made_anew(db: Database, server: Server) -> None:
    async with db.connection() as one, db.connection() as two:
        pids = [await one.fetchval("SELECT pg_backend_pid()"), await two.fetchval("SELECT pg_backend_pid()")]
    killer = await asyncpg.connect(server.url("postgres"))
    await killer.execute("SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid", pids)
    await killer.close()
    await asyncio.sleep(0.1)
    assert await asyncio.gather(*(_count(db) for _ in range(5))) == [0] * 5


async def test_a_database_out_of_reach_fails_everybody_who_waits_and_comes_back(settings: Settings) -> None:
    lost = Database("postgresql://postgres@/x?host=/nowhere", settings)
    found = await asyncio.gather(*(lost.open() for _ in range(6)), return_exceptions=True)
    assert all(isinstance(error, OSError) for error in found)


async def test_using_a_database_that_is_not_open_is_said_plainly(server: Server, settings: Settings) -> None:
    database = Database(server.url("postgres"), settings)
    with pytest.raises(asyncpg.InterfaceError, match="not open"):
        await _count(database)
    await (await database.open()).close()
    with pytest.raises(asyncpg.InterfaceError, match="not open"):
        await _count(database)
