"""Migrations: numbered files, applied once, serialised, and refused when the schema is not known."""

import asyncio
import re
from collections.abc import AsyncIterator
from importlib import resources

import asyncpg
import pytest

from tests.conftest import Server
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migrate import BASELINE, MigrationError, migrate, pending_migrations, require_compatible
from tonne.platform.db.schema.migration_files import Migration, all_migrations

NAME = "unmigrated"


@pytest.fixture
async def bare_url(server: Server, worker_id: str) -> AsyncIterator[str]:
    """An empty database."""
    name = f"{NAME}_{worker_id}"
    connection: Connection = await asyncpg.connect(server.url("postgres"))
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
    yield server.url(name)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.fixture
async def bare(bare_url: str) -> AsyncIterator[Connection]:
    connection: Connection = await asyncpg.connect(bare_url)
    yield connection
    await connection.close()


def test_files_are_numbered_from_one_without_a_gap() -> None:
    names = sorted(file.name for file in (resources.files("tonne.platform.db.schema") / "migrations").iterdir())
    assert all(re.fullmatch(r"[0-9]{4}_[a-z][a-z0-9_]*\.sql", name) for name in names)
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert [migration.version for migration in all_migrations()] == list(range(1, len(names) + 1))


async def test_migrating_applies_all_files_in_order_and_a_second_run_does_nothing(bare: Connection) -> None:
    assert await migrate(bare) == all_migrations()
    tables = await bare.fetchval("SELECT array_agg(oid::text ORDER BY oid) FROM pg_class")
    assert await migrate(bare) == []
    assert await bare.fetchval("SELECT array_agg(oid::text ORDER BY oid) FROM pg_class") == tables
    rows = await bare.fetch("SELECT version, name, checksum FROM schema_migrations ORDER BY version")
    assert [tuple(row) for row in rows] == [(m.version, m.name, m.checksum) for m in all_migrations()]
    await require_compatible(bare)


async def test_pending_migrations_are_refused_with_the_command_that_runs_them(bare: Connection) -> None:
    with pytest.raises(MigrationError, match=r"run `tonne migrate` first") as refusal:
        await require_compatible(bare)
    assert all(migration.name in str(refusal.value) for migration in all_migrations())
    assert "\n" not in str(refusal.value)


async def test_a_single_pending_migration_is_named(bare: Connection) -> None:
    await migrate(bare)
    last = all_migrations()[-1]
    await bare.execute("DELETE FROM schema_migrations WHERE version = $1", last.version)
    assert await pending_migrations(bare) == [last]
    with pytest.raises(MigrationError, match=rf"1 migration\(s\) \({last.name}\)"):
        await require_compatible(bare)


async def test_a_file_that_was_changed_after_it_was_applied_is_refused(
    bare: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Migration(BASELINE + 1, "0007_later", "-- compatible_from: 6\nSELECT 1")
    monkeypatch.setattr("tonne.platform.db.schema.migrate.all_migrations", lambda: [*all_migrations(), later])
    await migrate(bare)
    await bare.execute("UPDATE schema_migrations SET checksum = repeat('0', 64) WHERE version = $1", later.version)
    for attempt in (migrate, require_compatible):
        with pytest.raises(MigrationError, match="0007_later was changed after it was applied"):
            await attempt(bare)


async def test_a_database_of_a_newer_release_is_refused(bare: Connection) -> None:
    await migrate(bare)
    await bare.execute("INSERT INTO schema_migrations VALUES (9999, '9999_later', 'x', now(), 9999)")
    for attempt in (migrate, require_compatible):
        with pytest.raises(MigrationError, match="9999_later, which this release does not know"):
            await attempt(bare)


@pytest.mark.parametrize("changed", ["checksum = repeat('0', 64)", "name = '0001_schema', checksum = 'x'"])
async def test_a_database_of_an_unreleased_version_must_be_created_again(bare: Connection, changed: str) -> None:
    """The schema of the first release is changed in place until it is released."""
    await migrate(bare)
    await bare.execute(f"UPDATE schema_migrations SET {changed} WHERE version = 1")  # noqa: S608 - ours
    for attempt in (migrate, require_compatible):
        with pytest.raises(MigrationError) as refusal:
            await attempt(bare)
        assert str(refusal.value) == (
            "The database was created by an unreleased version of Tonne, so it cannot be migrated: drop the database, "
            "create it again and run `tonne migrate`."
        )


async def test_a_refused_migration_releases_the_lock(bare: Connection, bare_url: str) -> None:
    await migrate(bare)
    await bare.execute("INSERT INTO schema_migrations VALUES (9999, '9999_later', 'x', now(), 9999)")
    with pytest.raises(MigrationError):
        await migrate(bare)
    await bare.execute("DELETE FROM schema_migrations WHERE version = 9999")
    other: Connection = await asyncpg.connect(bare_url)
    assert await asyncio.wait_for(migrate(other), 10) == []
    await other.close()


async def test_concurrent_migrations_are_serialised(bare_url: str) -> None:
    connections = [await asyncpg.connect(bare_url) for _ in range(4)]
    barrier = asyncio.Barrier(len(connections))

    async def run(connection: Connection) -> int:
        await barrier.wait()
        return len(await migrate(connection))

    applied = await asyncio.gather(*(run(connection) for connection in connections))
    assert sorted(applied) == [0, 0, 0, len(all_migrations())]
    for connection in connections:
        await connection.close()


async def test_a_failed_migration_is_rolled_back_and_releases_the_lock(bare: Connection, bare_url: str) -> None:
    await migrate(bare)
    # Their tables exist, so applying them again fails.
    await bare.execute("DELETE FROM schema_migrations")
    other: Connection = await asyncpg.connect(bare_url)
    for connection in (bare, other):
        with pytest.raises(asyncpg.PostgresError):
            await asyncio.wait_for(migrate(connection), 10)
        assert await pending_migrations(connection) == all_migrations()
    await other.close()


async def test_a_migration_that_waits_too_long_for_a_lock_says_what_to_do(
    bare: Connection, bare_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(bare)
    later = Migration(9999, "9999_later", "ALTER TABLE organisations ADD COLUMN later text")
    monkeypatch.setattr("tonne.platform.db.schema.migrate.all_migrations", lambda: [*all_migrations(), later])
    other: Connection = await asyncpg.connect(bare_url)
    async with other.transaction():
        await other.execute("LOCK TABLE organisations")
        with pytest.raises(MigrationError, match=r"9999_later could not lock its tables .* run `tonne migrate` again"):
            await migrate(bare, wait_s=0)
    assert await migrate(bare) == [later]
    await other.close()


async def test_operations_2_a_newer_schema_that_suits_this_release_is_accepted(bare: Connection) -> None:
    await migrate(bare)
    ours = all_migrations()[-1].version
    await bare.execute(
        "INSERT INTO schema_migrations (version, name, checksum, compatible_from) VALUES (9999, '9999_later', 'x', $1)",
        ours,
    )
    await require_compatible(bare)
    assert await migrate(bare) == []
    await bare.execute("UPDATE schema_migrations SET compatible_from = 9999 WHERE version = 9999")
    for attempt in (migrate, require_compatible):
        with pytest.raises(MigrationError, match=r"9999_later, which this release does not know .* migration 9999"):
            await attempt(bare)


async def test_a_newer_schema_that_lacks_a_migration_of_this_release_is_refused(bare: Connection) -> None:
    await migrate(bare)
    last = all_migrations()[-1]
    await bare.execute(
        "UPDATE schema_migrations SET version = 9999, name = '9999_later', compatible_from = 1 WHERE version = $1",
        last.version,
    )
    with pytest.raises(MigrationError, match=rf"1 migration\(s\) \({last.name}\)"):
        await require_compatible(bare)


def test_operations_2_a_migration_says_from_which_release_on_it_can_be_used() -> None:
    assert Migration(7, "0007_x", "-- compatible_from: 5\nSELECT 1").compatible_from == 5
    assert Migration(7, "0007_x", "SELECT 1").compatible_from == 7
