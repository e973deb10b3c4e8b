"""The pool: transactions commit or roll back, and no connection is lost or reused in a bad state."""

import asyncio

import asyncpg
import msgspec
import psutil
import pytest

from tests.conftest import Server
from tonne.platform.db.database import Connection, Database, PoolTimeout
from tonne.platform.db.errors import is_database_unavailable
from tonne.platform.settings.settings import Settings

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


async def test_a_snapshot_is_repeatable_and_read_only(db: Database) -> None:
    async with db.snapshot() as snapshot:
        before = await snapshot.fetchval(COUNT)
        async with db.transaction() as tx:
            await tx.execute(INSERT, "org_new")
        assert await snapshot.fetchval(COUNT) == before
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await snapshot.execute(INSERT, "org_never")
    assert await _count(db) == before + 1


async def test_a_connection_is_usable_after_a_failed_transaction(db: Database) -> None:
    for _ in range(40):
        with pytest.raises(asyncpg.UndefinedTableError):
            async with db.transaction() as tx:
                await tx.execute("SELECT 1 FROM nowhere")
    assert await _count(db) == 0


@pytest.fixture
def settings() -> Settings:
    return Settings(statement_timeout_s=0.2, database_connections=2)


async def test_a_slow_statement_is_cancelled(db: Database) -> None:
    async with db.connection() as connection:
        with pytest.raises(asyncpg.QueryCanceledError):
            await connection.execute("SELECT pg_sleep(5)")


async def test_an_idle_transaction_is_ended(db: Database) -> None:
    """Otherwise a hanging transaction would hold its locks for ever."""
    ended = asyncio.Event()
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):  # noqa: PT012 - the server ends it while we wait
        async with db.transaction() as tx:
            tx.add_termination_listener(lambda _: ended.set())
            await tx.execute(INSERT, "org_lost")
            await asyncio.wait_for(ended.wait(), 10)
            await tx.execute(COUNT)
    assert await _count(db) == 0


async def test_more_transactions_than_connections_wait_for_a_free_one(db: Database) -> None:
    async def work(number: int) -> None:
        async with db.transaction() as tx:
            await tx.execute(INSERT, f"org_{number}")

    await asyncio.gather(*(work(number) for number in range(30)))
    assert await _count(db) == 30


async def test_the_time_zone_is_utc(db: Database) -> None:
    async with db.connection() as connection:
        assert await connection.fetchval("SHOW TimeZone") == "UTC"


async def test_a_connection_interrupted_in_a_statement_is_not_reused(db: Database) -> None:
    async with db.connection() as connection:
        first = await connection.fetchval("SELECT pg_backend_pid()")

    sending = asyncio.Event()

    async def work() -> None:
        async with db.connection() as connection:
            statement = asyncio.ensure_future(connection.execute("SELECT pg_sleep(0.1)"))
            sending.set()
            await statement

    task = asyncio.create_task(work())
    await sending.wait()
    await asyncio.sleep(0)  # the statement is sent now
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with db.connection() as connection:
        assert await connection.fetchval("SELECT pg_backend_pid()") != first


async def test_a_cancelled_waiter_does_not_take_a_connection(db: Database) -> None:
    async with db.connection(), db.connection():
        waiting = [asyncio.create_task(_count(db)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting[1].cancel()
    assert await waiting[2] == 0
    await asyncio.gather(*(_count(db) for _ in range(10)))


async def test_connections_closed_by_the_server_are_replaced(db: Database, server: Server) -> None:
    async with db.connection() as one, db.connection() as two:
        pids = [await one.fetchval("SELECT pg_backend_pid()"), await two.fetchval("SELECT pg_backend_pid()")]
        both_closed = [asyncio.Event(), asyncio.Event()]
        one.add_termination_listener(lambda _: both_closed[0].set())
        two.add_termination_listener(lambda _: both_closed[1].set())
    killer = await asyncpg.connect(server.url("postgres"))
    await killer.execute("SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) AS pid", pids)
    await killer.close()
    await asyncio.wait_for(asyncio.gather(*(closed.wait() for closed in both_closed)), 10)
    assert await asyncio.gather(*(_count(db) for _ in range(5))) == [0] * 5


async def test_an_unreachable_database_fails_all_waiters(settings: Settings) -> None:
    lost = Database("postgresql://postgres@/x?host=/nowhere", settings)
    found = await asyncio.gather(*(lost.open() for _ in range(6)), return_exceptions=True)
    assert all(isinstance(error, OSError) for error in found)


async def test_a_closed_database_cannot_be_used(server: Server, settings: Settings) -> None:
    database = Database(server.url("postgres"), settings)
    with pytest.raises(asyncpg.InterfaceError, match="not open"):
        await _count(database)
    await (await database.open()).close()
    with pytest.raises(asyncpg.InterfaceError, match="not open"):
        await _count(database)


async def test_a_statement_during_which_the_pool_is_closed_fails_as_in_an_outage(
    server: Server, settings: Settings
) -> None:
    """A process that stops terminates connections. At no step may this look like an error of ours."""
    failed = 0
    for steps in range(100):
        database = await Database(server.url("postgres"), settings).open()
        reading = asyncio.create_task(database.run(read_number, steps))
        for _ in range(steps):
            await asyncio.sleep(0)
        await database.close()
        [found] = await asyncio.gather(reading, return_exceptions=True)
        assert found == steps or (isinstance(found, Exception) and is_database_unavailable(found)), repr(found)
        failed += found != steps
    assert failed


async def read_number(connection: Connection, number: int) -> int:
    """Statements that the connection does not know yet."""
    for each in range(20):
        await connection.fetchval(f"SELECT {number} + {each}")
    return number


async def test_a_connection_opened_while_the_pool_closes_is_closed(server: Server, settings: Settings) -> None:
    database = await Database(server.url("postgres"), settings).open()
    first = await database.acquire()
    opening = asyncio.create_task(database.acquire())
    await asyncio.sleep(0)  # it connects now
    await database.close()
    second = await opening
    for connection in (first, second):
        database.release(connection, reusable=True)
        assert connection.is_closed()


async def test_a_cancelled_waiter_passes_on_its_permission_to_connect(db: Database) -> None:
    """Otherwise the next waiter would wait for a release that may never come."""
    held = [await db.acquire() for _ in range(db._settings.database_connections)]
    first, second = asyncio.create_task(db.acquire()), asyncio.create_task(db.acquire())
    await asyncio.sleep(0)
    db.release(held.pop(), reusable=False)
    first.cancel()
    held.append(await asyncio.wait_for(second, 5))
    for connection in held:
        db.release(connection, reusable=True)


async def test_operations_3_a_busy_pool_is_reported_within_the_deadline(server: Server, settings: Settings) -> None:
    impatient = msgspec.structs.replace(settings, database_connections=2, database_acquire_s=0.05)
    database = await Database(server.url("postgres"), impatient).open()
    async with database.connection(), database.connection():
        with pytest.raises(PoolTimeout):
            await database.acquire()
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT 1") == 1
    await database.close()


async def test_operations_3_a_server_that_does_not_answer_is_given_up(settings: Settings) -> None:
    """It takes the connection and stays silent, as a frozen host does."""
    writers: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    impatient = msgspec.structs.replace(settings, database_connect_s=0.1)
    with pytest.raises(TimeoutError):
        await Database(f"postgresql://x@127.0.0.1:{port}/x?sslmode=disable", impatient).open()
    for writer in writers:
        writer.close()
    silent.close()
    await silent.wait_closed()


async def test_operations_3_a_statement_on_a_frozen_server_is_given_up_and_its_connection_closed(db: Database) -> None:
    async with db.connection() as connection:
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        process = psutil.Process(pid)
    process.suspend()
    try:
        with pytest.raises(TimeoutError):
            async with db.connection() as connection:
                await connection.fetchval("SELECT 1", timeout=0.1)
    finally:
        process.resume()
    async with db.connection() as connection:
        assert await connection.fetchval("SELECT pg_backend_pid()") != pid


async def test_after_a_frozen_connection_no_other_one_to_that_server_is_tried(db: Database) -> None:
    async with db.connection() as one, db.connection() as two:
        pids = {await connection.fetchval("SELECT pg_backend_pid()") for connection in (one, two)}
    for pid in pids:
        psutil.Process(pid).suspend()
    try:
        with pytest.raises(TimeoutError):
            async with db.connection() as connection:
                await connection.fetchval("SELECT 1", timeout=0.1)
        async with db.connection() as connection:
            assert await connection.fetchval("SELECT pg_backend_pid()", timeout=10) not in pids
    finally:
        for pid in pids:
            psutil.Process(pid).resume()


async def test_operations_11_a_locked_row_is_waited_for_only_for_a_moment(server: Server, settings: Settings) -> None:
    quick = msgspec.structs.replace(settings, lock_timeout_s=0.05)
    database = await Database(server.url("postgres"), quick).open()
    async with database.transaction() as holder:
        await holder.execute("LOCK TABLE pg_catalog.pg_description IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(asyncpg.LockNotAvailableError):
            async with database.transaction() as tx:
                await tx.execute("LOCK TABLE pg_catalog.pg_description IN ACCESS EXCLUSIVE MODE")
    await database.close()


async def test_operations_14_connections_to_a_server_that_became_a_replica_are_closed(db: Database) -> None:
    async with db.connection(), db.connection() as idle:
        idle_pid = await idle.fetchval("SELECT pg_backend_pid()")
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):  # noqa: PT012 - the second statement fails
        async with db.connection() as connection:
            pid = await connection.fetchval("SELECT pg_backend_pid()")
            await connection.execute("SET default_transaction_read_only = on")
            await connection.execute(INSERT, "org_never")
    async with db.connection() as one, db.connection() as two:
        pids = {await connection.fetchval("SELECT pg_backend_pid()") for connection in (one, two)}
    assert not pids & {pid, idle_pid}
