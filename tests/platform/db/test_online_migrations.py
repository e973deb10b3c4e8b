"""Migrations that run while servers use the database: short waits for locks, indexes built concurrently, batches."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import asyncpg
import pytest

from tests.platform.db.test_migrations import bare, bare_url
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migrate import LOCK_TIMEOUT_S, MigrationError, migrate, pending_migrations
from tonne.platform.db.schema.migration_files import Migration

__all__ = ["bare", "bare_url"]
Release = Callable[..., list[Migration]]
INDEX = """-- compatible_from: 1
-- transaction: none
CREATE INDEX CONCURRENTLY IF NOT EXISTS things_size ON things (size);
"""


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    """Make these texts the migrations of the release."""

    def set_files(*texts: str) -> list[Migration]:
        files = [Migration(i, f"{i:04}_step", text) for i, text in enumerate(texts, 1)]
        monkeypatch.setattr("tonne.platform.db.schema.migrate.all_migrations", lambda: list(files))
        return files

    return set_files


@pytest.fixture
async def other(bare_url: str) -> AsyncIterator[Connection]:
    connection: Connection = await asyncpg.connect(bare_url, server_settings={"application_name": "a-report"})
    yield connection
    await connection.close()


WAITING = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')
"""
THINGS = """
CREATE TABLE things (id integer PRIMARY KEY, size integer);
INSERT INTO things SELECT i FROM generate_series(1, 10) AS i
"""


async def until_waiting(connection: Connection, *, expected: bool = True) -> None:
    """Until another session of the database waits for a lock, or none does."""
    while expected is not await connection.fetchval(WAITING):
        pass


async def test_a_migration_is_tried_again_until_it_gets_its_locks(
    bare: Connection, other: Connection, release: Release
) -> None:
    release(THINGS)
    await migrate(bare)
    files = release(THINGS, "ALTER TABLE things ADD COLUMN colour text")
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SELECT FROM things")
    applying = asyncio.create_task(migrate(bare))
    # The first try fails, because it may wait for a moment only.
    await until_waiting(other)
    await until_waiting(other, expected=False)
    assert not applying.done()
    await transaction.rollback()
    assert await asyncio.wait_for(applying, 30) == files[1:]


async def test_queries_wait_behind_a_migration_for_less_than_a_second(
    bare: Connection, bare_url: str, other: Connection, release: Release
) -> None:
    """Two tables are held: the waits for them together have one limit."""
    release(THINGS + "; CREATE TABLE others (id integer)")
    await migrate(bare)
    release(
        THINGS + "; CREATE TABLE others (id integer)", "ALTER TABLE others ADD x text; ALTER TABLE things ADD y text"
    )
    reader: Connection = await asyncpg.connect(bare_url)
    async with other.transaction():
        await other.execute("SELECT FROM things")
        applying = asyncio.create_task(migrate(bare, wait_s=0))
        await until_waiting(reader)
        started = time.monotonic()
        await reader.execute("SELECT FROM others, things")
        assert time.monotonic() - started < 1 <= LOCK_TIMEOUT_S + 0.2
        with pytest.raises(MigrationError, match=r"could not lock its tables .*PostgreSQL process \d+ of a-report for"):
            await applying
    await reader.close()


async def test_only_one_process_migrates_and_the_other_names_it(
    bare: Connection, other: Connection, release: Release
) -> None:
    release(THINGS)
    async with other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock(7405610214)")
        holder = await other.fetchval("SELECT pg_backend_pid()")
        with pytest.raises(MigrationError, match=rf"still running .*PostgreSQL process {holder} of a-report at .* UTC"):
            await migrate(bare, wait_s=0.05)
    assert len(await migrate(bare)) == 1


async def test_an_index_is_built_while_others_write(bare: Connection, other: Connection, release: Release) -> None:
    release(THINGS)
    await migrate(bare)
    files = release(THINGS, INDEX)
    assert not files[1].in_transaction
    transaction = other.transaction()
    await transaction.start()
    await other.execute("INSERT INTO things VALUES (11)")
    building = asyncio.create_task(migrate(bare))
    await until_waiting(other)
    # The build waits for this transaction, and does not block its writes.
    await other.execute("INSERT INTO things VALUES (12)")
    await transaction.commit()
    assert await asyncio.wait_for(building, 30) == files[1:]
    assert await bare.fetchval("SELECT indisvalid FROM pg_index WHERE indexrelid = 'things_size'::regclass")
    assert await bare.fetchval("SHOW lock_timeout") == "0"


async def test_an_index_whose_build_was_killed_is_dropped_and_built_again(
    bare: Connection, bare_url: str, other: Connection, release: Release
) -> None:
    release(THINGS)
    await migrate(bare)
    files = release(THINGS, INDEX)
    killed: Connection = await asyncpg.connect(bare_url)
    process = await killed.fetchval("SELECT pg_backend_pid()")
    async with other.transaction():
        await other.execute("INSERT INTO things VALUES (11)")
        building = asyncio.create_task(migrate(killed))
        await until_waiting(other)
        await bare.execute("SELECT pg_terminate_backend($1, 5000)", process)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await building
    first = await bare.fetchval("SELECT indexrelid FROM pg_index WHERE indexrelid = to_regclass('things_size')")
    assert first is not None
    assert not await bare.fetchval("SELECT indisvalid FROM pg_index WHERE indexrelid = $1", first)
    assert await pending_migrations(bare) == files[1:]
    assert await migrate(bare) == files[1:]
    rebuilt = await bare.fetchrow(
        "SELECT indexrelid, indisvalid FROM pg_index WHERE indrelid = 'things'::regclass AND NOT indisprimary"
    )
    assert rebuilt is not None
    assert rebuilt["indisvalid"]
    assert rebuilt["indexrelid"] != first


async def test_an_index_that_cannot_be_built_is_not_left_behind(bare: Connection, release: Release) -> None:
    release(THINGS)
    await migrate(bare)
    await bare.execute("UPDATE things SET size = 1")
    release(THINGS, INDEX.replace("CREATE INDEX", "CREATE UNIQUE INDEX"))
    with pytest.raises(asyncpg.UniqueViolationError):
        await migrate(bare)
    assert await bare.fetchval("SELECT to_regclass('things_size')") is None


async def test_a_waiting_migration_does_not_stop_the_build_of_an_index(
    bare: Connection, bare_url: str, other: Connection, release: Release
) -> None:
    """A session that waits in pg_advisory_lock would have a snapshot that the build waits for: a deadlock."""
    release(THINGS)
    await migrate(bare)
    files = release(THINGS, INDEX)
    second: Connection = await asyncpg.connect(bare_url)
    async with other.transaction():
        await other.execute("INSERT INTO things VALUES (11)")
        building = asyncio.create_task(migrate(bare))
        await until_waiting(other)
        waiting = asyncio.create_task(migrate(second))
    assert await asyncio.wait_for(building, 30) == files[1:]
    assert await asyncio.wait_for(waiting, 30) == []
    await second.close()


async def test_a_backfill_runs_in_batches_and_goes_on_after_it_was_stopped(bare: Connection, release: Release) -> None:
    release(THINGS)
    await migrate(bare)
    files = release(
        THINGS,
        "-- compatible_from: 1\n-- transaction: none\n"
        "-- repeat until it changes no row\n"
        "UPDATE things SET size = xmin_of_batch() WHERE id IN (SELECT id FROM things WHERE size IS NULL LIMIT 4)",
    )
    # Each batch has its own transaction: the function returns its id.
    await bare.execute(
        "CREATE FUNCTION xmin_of_batch() RETURNS integer LANGUAGE sql AS 'SELECT pg_current_xact_id()::text::integer'"
    )
    await bare.execute("UPDATE things SET size = 0 WHERE id = 1")
    assert await migrate(bare) == files[1:]
    sizes = await bare.fetch("SELECT size, count(*) AS rows FROM things GROUP BY size ORDER BY size")
    assert [row["rows"] for row in sizes] == [1, 4, 4, 1]


async def test_migrations_in_and_out_of_transactions_keep_their_order(bare: Connection, release: Release) -> None:
    files = release(THINGS, INDEX, "ALTER INDEX things_size RENAME TO things_by_size")
    assert await migrate(bare) == files
    rows = await bare.fetch("SELECT version, compatible_from FROM schema_migrations ORDER BY version")
    assert [tuple(row) for row in rows] == [(1, 1), (2, 1), (3, 3)]
