"""Applies the numbered SQL files, each once, in order, in a transaction of its own."""

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

import asyncpg

from tonne.db.pool import Connection

# Key of the advisory lock that serialises concurrent migrations. The number is arbitrary.
_LOCK = 7_405_610_214
# Other queries queue behind a lock request that waits, so a migration does not wait for long.
LOCK_TIMEOUT_S = 5.0
_COMPATIBLE_FROM = re.compile(r"-- compatible_from: (\d+)$", re.MULTILINE)
# Versions before the first release had four files, which 0001_schema replaces.
_UNRELEASED = "0001_foundation"


class MigrationError(Exception):
    """The schema does not match this release. The message says what to do."""


class UnreleasedSchemaError(MigrationError):
    """The database was created before the first release, and no migration leads from there."""

    def __init__(self, remedy: str) -> None:
        super().__init__(
            f"The database was created by an unreleased version of Tonne, so it cannot be migrated: {remedy}"
        )


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def compatible_from(self) -> int:
        """The oldest release that can run on this schema, by the number of its last migration.

        A file says so in its first line; without it, only releases that know the migration can run.
        """
        found = _COMPATIBLE_FROM.match(self.sql)
        return int(found[1]) if found else self.version

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def all_migrations() -> list[Migration]:
    folder = resources.files("tonne.db") / "migrations"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return [
        Migration(int(file.name.split("_")[0]), file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in files
    ]


async def pending_migrations(connection: Connection) -> list[Migration]:
    """The migrations not applied yet.

    Raises an error if the database has migrations of a newer or an unreleased version, or if a file was changed after
    it was applied.
    """
    if await connection.fetchval("SELECT to_regclass('schema_migrations') IS NULL"):
        return all_migrations()
    rows = await connection.fetch("SELECT version, name, checksum FROM schema_migrations ORDER BY version")
    if any(row["name"] == _UNRELEASED for row in rows):
        raise UnreleasedSchemaError("drop the database, create it again and run `tonne migrate`.")
    applied = {row["version"]: row for row in rows}
    known = {migration.version: migration for migration in all_migrations()}
    for version, row in applied.items():
        if version not in known:
            raise MigrationError(
                f"The database has migration {row['name']}, which this release does not know: run the newer release."
            )
        if row["checksum"] != known[version].checksum:
            raise MigrationError(
                f"Migration {row['name']} was changed after it was applied: restore the file and add a new migration."
            )
    return [migration for version, migration in known.items() if version not in applied]


CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version     integer PRIMARY KEY,
    name        text NOT NULL,
    checksum    text NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE schema_migrations ADD COLUMN IF NOT EXISTS compatible_from integer
"""


async def migrate(connection: Connection) -> list[Migration]:
    """Apply the pending migrations and return them."""
    await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
    try:
        await connection.execute(CREATE_TABLE)
        pending = await pending_migrations(connection)
        for migration in pending:
            await _apply(connection, migration)
        return pending
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)


RECORD = "INSERT INTO schema_migrations (version, name, checksum, compatible_from) VALUES ($1, $2, $3, $4)"


async def _apply(connection: Connection, migration: Migration) -> None:
    timeouts = f"SET LOCAL lock_timeout = {int(LOCK_TIMEOUT_S * 1000)}; SET LOCAL statement_timeout = 0"
    facts = (migration.version, migration.name, migration.checksum, migration.compatible_from)
    try:
        async with connection.transaction():
            await connection.execute(timeouts)
            await connection.execute(migration.sql)
            await connection.execute(RECORD, *facts)
    except asyncpg.RaiseError as error:  # raised by the file itself, for a person to read
        raise MigrationError(f"Migration {migration.name} was not applied. {error}") from error
    except asyncpg.LockNotAvailableError as error:
        raise MigrationError(
            f"Migration {migration.name} could not lock its tables within {LOCK_TIMEOUT_S:g} s, because another "
            "transaction uses them. It changed nothing: run `tonne migrate` again, if necessary at a quieter time."
        ) from error


NEWER = "SELECT coalesce(compatible_from, version) AS compatible_from FROM schema_migrations WHERE version > $1"


async def require_compatible(connection: Connection) -> None:
    """Raise an error if this release cannot run on the schema. A newer schema may say that it can."""
    newest = all_migrations()[-1].version
    if not await connection.fetchval("SELECT to_regclass('schema_migrations') IS NULL"):
        rows = await connection.fetch(NEWER, newest)
        if rows and max(row["compatible_from"] for row in rows) <= newest:
            return
    pending = await pending_migrations(connection)
    if pending:
        names = ", ".join(migration.name for migration in pending)
        raise MigrationError(f"The database needs {len(pending)} migration(s) ({names}): run `tonne migrate` first.")
