"""The data of an older PostgreSQL is moved to the version of this release, and the old files are kept."""

import asyncio
import fcntl
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.command import run_here
from tests.support.world import build_world
from tonne.apps.cli.operations.doctor import examine
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migrate import migrate
from tonne.platform.db.server.backup import count_rows
from tonne.platform.db.server.embedded import DATABASE, ensure_database, start_server
from tonne.platform.db.server.postmaster import OLD_DATA, UPGRADING, DatabaseUnavailable, Postmaster, embedded_majors

OLD = 16


@pytest.fixture
def rows() -> dict[str, int]:
    """The number of rows of each table, as the fixture `old` has counted them."""
    return {}


@pytest.fixture
def old(tmp_path: Path, rows: dict[str, int]) -> Iterator[Path]:
    """A data folder that an older release has made."""
    assert OLD in embedded_majors()
    data = tmp_path / "old"
    postmaster = Postmaster(data / "postgres", major=OLD)
    postmaster.prepare()
    postmaster.start()
    rows |= asyncio.run(_fill(postmaster.url(DATABASE)))
    postmaster.stop()
    yield data
    Postmaster(data / "postgres").stop()


async def _fill(url: str) -> dict[str, int]:
    await ensure_database(url)
    connection: Connection = await asyncpg.connect(url)
    try:
        assert (await connection.fetchval("SHOW server_version")).startswith(f"{OLD}.")
        await migrate(connection)
        async with connection.transaction():
            await build_world(connection)
        return await count_rows(connection)
    finally:
        await connection.close()


def upgrade(data: Path) -> tuple[int, str]:
    done = run_here("upgrade", data_dir=data)
    return done.returncode, done.stdout + done.stderr


def test_the_data_of_an_older_release_is_upgraded(old: Path, rows: dict[str, int]) -> None:
    """In one test, because each step needs the one before."""
    tonne_says_what_to_do(old)
    a_database_in_use_is_left_alone(old)
    an_interrupted_upgrade_is_named_and_repeated(old, rows)
    all_rows_are_there_and_the_checks_pass(old, rows)
    there_is_nothing_left_to_do(old)


def tonne_says_what_to_do(old: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"was made by PostgreSQL 16.*: run `tonne upgrade`"):
        start_server(old / "postgres")


def a_database_in_use_is_left_alone(old: Path) -> None:
    with (old / "postgres" / "users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        code, printed = upgrade(old)
    assert code == 1
    assert "in use" in printed


def an_interrupted_upgrade_is_named_and_repeated(old: Path, rows: dict[str, int]) -> None:
    """As if it was killed between the two renames, with the new server still running."""
    folder = old / "postgres"
    (folder / "data").rename(folder / f"{OLD_DATA}{OLD}")
    left = Postmaster(folder / UPGRADING)
    left.prepare()
    left.start()
    try:
        with pytest.raises(DatabaseUnavailable, match=r"An upgrade of the database in .* was interrupted"):
            start_server(folder)
        code, printed = upgrade(old)
    finally:
        left.stop()
    assert code == 0, printed
    assert f"Moved {sum(rows.values())} rows from PostgreSQL 16 to 18." in printed
    assert not (folder / UPGRADING).exists()
    assert (folder / f"{OLD_DATA}{OLD}" / "PG_VERSION").read_text().strip() == "16"


def all_rows_are_there_and_the_checks_pass(old: Path, rows: dict[str, int]) -> None:
    server = start_server(old / "postgres")
    try:
        asyncio.run(_check(server.url(DATABASE), rows))
    finally:
        server.close()


async def _check(url: str, rows: dict[str, int]) -> None:
    connection: Connection = await asyncpg.connect(url)
    try:
        assert (await connection.fetchval("SHOW server_version")).startswith("18.")
        assert await count_rows(connection) == rows
        assert await migrate(connection) == []
        async with connection.transaction():
            assert await examine(connection) == {}
    finally:
        await connection.close()


def there_is_nothing_left_to_do(old: Path) -> None:
    assert upgrade(old) == (0, "Nothing to do: the database has the PostgreSQL version of this release.\n")


def test_your_own_server_is_upgraded_with_its_own_tools(tmp_path: Path) -> None:
    done = run_here("upgrade", data_dir=tmp_path, database_url="postgresql://somewhere/db")
    assert done.returncode == 1
    assert "with its own tools" in done.stderr


def test_without_a_database_nothing_is_created(tmp_path: Path) -> None:
    code, printed = upgrade(tmp_path / "data")
    assert code == 1
    assert "There is no database" in printed
    assert not (tmp_path / "data").exists()


def test_a_version_without_programs_leads_to_a_backup(tmp_path: Path) -> None:
    folder = tmp_path / "postgres"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(DatabaseUnavailable, match="run `tonne backup` there"):
        start_server(folder)
    code, printed = upgrade(tmp_path)
    assert code == 1
    assert "run `tonne backup` there" in printed
