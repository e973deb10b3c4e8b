"""Applies the numbered SQL files, each once, in order, while servers of the previous release serve requests."""

import asyncio
import random
import re
import time
from collections.abc import Callable

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migration_files import REPEAT, Migration, SqlStatement, all_migrations

# Key of the advisory lock that serialises concurrent migrations. The number is arbitrary.
_LOCK = 7_405_610_214
# Other queries queue behind a lock request that waits. All waits of one try of a migration together take no longer.
LOCK_TIMEOUT_S = 0.8
# Each statement gets at least this share of what a try has left for its locks.
_MIN_LOCK_TIMEOUT_S = 0.02
# A migration that does not get its locks is tried again, at most for this long.
WAIT_S = 120.0
# CREATE INDEX CONCURRENTLY waits for older transactions, but nobody waits behind it.
CONCURRENT_WAIT_S = 900.0
_BACK_OFF_S = (0.3, 5.0)
# Between two batches, so that other transactions and replicas keep up.
_BATCH_PAUSE_S = 0.02
# The files up to this number are the schema of the first release. Until then they are changed in place, so a database
# that was made by other files cannot be migrated.
BASELINE = 6
_CONCURRENT_INDEX = re.compile(
    r"CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\s", re.IGNORECASE
)


class MigrationError(Exception):
    """The schema does not match this release. The message says what to do."""


class UnreleasedSchemaError(MigrationError):
    """The database was created by code from before the first release, and no migration leads from there."""

    def __init__(self, remedy: str) -> None:
        super().__init__(
            f"The database was created by an unreleased version of Tonne, so it cannot be migrated: {remedy}"
        )


class AppliedMigration(Struct, frozen=True):
    """A row of schema_migrations."""

    version: int
    name: str
    checksum: str
    compatible_from: int


# Databases of unreleased versions, which are refused, may have no column compatible_from.
APPLIED = """
SELECT version, name, checksum,
       coalesce((to_jsonb(migration) ->> 'compatible_from')::integer, version) AS compatible_from
FROM schema_migrations AS migration
ORDER BY version
"""


async def applied_migrations(connection: Connection) -> list[AppliedMigration]:
    """In order. Empty for a database without schema."""
    if await connection.fetchval("SELECT to_regclass('schema_migrations') IS NULL"):
        return []
    return [AppliedMigration(*row) for row in await connection.fetch(APPLIED)]


async def pending_migrations(connection: Connection) -> list[Migration]:
    """The migrations not applied yet.

    Raises an error if the database has migrations of a newer release which this one cannot run on, or of an unreleased
    version, or if a file was changed after it was applied.
    """
    applied = {row.version: row for row in await applied_migrations(connection)}
    known = {migration.version: migration for migration in all_migrations()}
    baseline = [migration for version, migration in known.items() if version <= BASELINE and version in applied]
    if any(applied[migration.version].checksum != migration.checksum for migration in baseline):
        raise UnreleasedSchemaError("drop the database, create it again and run `tonne migrate`.")
    ours = max(known)
    for version, row in applied.items():
        if version not in known and row.compatible_from > ours:
            raise MigrationError(
                f"The database has migration {row.name}, which this release does not know and cannot run on (it needs "
                f"a release with migration {row.compatible_from}; this one has {ours}): run the newer release."
            )
        if version in known and row.checksum != known[version].checksum:
            raise MigrationError(
                f"Migration {row.name} was changed after it was applied: restore the file and add a new migration."
            )
    return [migration for version, migration in known.items() if version not in applied]


async def require_compatible(connection: Connection) -> None:
    """Raise an error if this release cannot run on the schema. A newer schema may say that it can."""
    pending = await pending_migrations(connection)
    if pending:
        names = ", ".join(migration.name for migration in pending)
        raise MigrationError(f"The database needs {len(pending)} migration(s) ({names}): run `tonne migrate` first.")


CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version          integer PRIMARY KEY,
    name             text NOT NULL,
    checksum         text NOT NULL,
    applied_at       timestamptz NOT NULL DEFAULT now(),
    compatible_from  integer NOT NULL
)
"""


def _ignore(_: str) -> None:
    return None


# PostgreSQL cancels an autovacuum that holds a lock up only after deadlock_timeout (1 s), which is longer than a try.
SIGNAL_AUTOVACUUM_EARLY = """
SELECT set_config('deadlock_timeout', '200ms', false) WHERE has_parameter_privilege('deadlock_timeout', 'SET')
"""


async def migrate(
    connection: Connection, wait_s: float | None = None, report: Callable[[str], None] = _ignore
) -> list[Migration]:
    """Apply the pending migrations and return them. `wait_s` is how long to wait for locks, instead of `WAIT_S`.

    `report` gets a sentence when something takes longer than usual.
    """
    deadline = _Deadline(WAIT_S if wait_s is None else wait_s)
    await _lock(connection, deadline)
    try:
        await connection.execute(CREATE_TABLE)
        pending = await pending_migrations(connection)
        if pending:
            await connection.execute(SIGNAL_AUTOVACUUM_EARLY)
        for migration in pending:
            await _apply(connection, migration, _Deadline(deadline.within_s), report)
        return pending
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)


class _Deadline:
    """A limit of time, and the pauses of tries until then."""

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self._at = time.monotonic() + within_s
        self._pause_s, self._max_pause_s = _BACK_OFF_S

    async def pause(self) -> bool:
        """Sleep before the next try; false if the time is over."""
        left = self._at - time.monotonic()
        if left <= 0:
            return False
        await asyncio.sleep(min(left, self._pause_s * random.uniform(0.5, 1)))  # noqa: S311 - no secret
        self._pause_s = min(2 * self._pause_s, self._max_pause_s)
        return True


LOCK_HOLDER = """
SELECT activity.pid, activity.application_name, coalesce(host(activity.client_addr), 'this machine') AS address,
       activity.backend_start, left(activity.query, 60) AS query
FROM pg_locks AS locks
JOIN pg_stat_activity AS activity USING (pid)
WHERE locks.locktype = 'advisory' AND locks.granted AND locks.objsubid = 1
  AND locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (locks.classid::bigint << 32 | locks.objid::bigint) = $1
"""


async def _lock(connection: Connection, deadline: _Deadline) -> None:
    """Tries instead of waiting in PostgreSQL: CREATE INDEX CONCURRENTLY of the other process would wait for us."""
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
        if not await deadline.pause():
            holder = await connection.fetchrow(LOCK_HOLDER, _LOCK)
            whose = ""
            if holder is not None:
                whose = (
                    f": PostgreSQL process {holder['pid']} of {holder['application_name'] or 'an unnamed program'} at "
                    f"{holder['address']}, connected since {holder['backend_start']:%Y-%m-%d %H:%M:%S} UTC"
                )
            raise MigrationError(
                f"Another `tonne migrate` is still running after {deadline.within_s:g} s{whose}. Wait until it has "
                "finished and run `tonne migrate` again, or end that process with pg_terminate_backend."
            )


RECORD = "INSERT INTO schema_migrations (version, name, checksum, compatible_from) VALUES ($1, $2, $3, $4)"


async def _apply(
    connection: Connection, migration: Migration, deadline: _Deadline, report: Callable[[str], None]
) -> None:
    while True:
        try:
            if migration.in_transaction:
                await _apply_at_once(connection, migration)
            else:
                await _apply_statements(connection, migration, report)
        except asyncpg.RaiseError as error:  # raised by the file itself, for a person to read
            raise MigrationError(f"Migration {migration.name} was not applied. {error}") from error
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            report(f"Another transaction uses the tables of migration {migration.name}: trying again.")
            if not await deadline.pause():
                raise await _not_locked(connection, migration, deadline) from error
        else:
            return


async def _record(connection: Connection, migration: Migration) -> None:
    facts = (migration.version, migration.name, migration.checksum, migration.compatible_from)
    await connection.execute(RECORD, *facts)


async def _apply_at_once(connection: Connection, migration: Migration) -> None:
    async with connection.transaction():
        started = time.monotonic()
        for statement in migration.statements:
            left_s = LOCK_TIMEOUT_S - (time.monotonic() - started)
            await connection.execute(f"{_timeouts('SET LOCAL', left_s)}; {statement.text}")
        await _record(connection, migration)


async def _apply_statements(connection: Connection, migration: Migration, report: Callable[[str], None]) -> None:
    """Each statement in its own transaction. They are repeatable, so a try after a failure starts from the first."""
    try:
        for statement in migration.statements:
            index = _CONCURRENT_INDEX.match(statement.text)
            is_concurrent = index is not None or re.match(r"DROP\s+INDEX\s+CONCURRENTLY", statement.text, re.IGNORECASE)
            await connection.execute(_timeouts("SET", CONCURRENT_WAIT_S if is_concurrent else LOCK_TIMEOUT_S))
            if index is not None:
                if await _drop_invalid_index(connection, index[1].lower()):
                    report(f"The index {index[1]} was not completed: building it again.")
                await _build_index(connection, index[1].lower(), statement)
            elif REPEAT in statement.comments:
                await _run_batches(connection, statement)
            else:
                await connection.execute(statement.text)
        await _record(connection, migration)
    finally:
        await connection.execute("RESET lock_timeout; RESET statement_timeout")


def _timeouts(command: str, lock_s: float) -> str:
    lock_ms = int(max(lock_s, _MIN_LOCK_TIMEOUT_S) * 1000)
    return f"{command} lock_timeout = {lock_ms}; {command} statement_timeout = 0"


async def _build_index(connection: Connection, index: str, statement: SqlStatement) -> None:
    """A build that failed leaves an index that slows writes and may refuse them: drop it."""
    try:
        await connection.execute(statement.text)
    except asyncpg.PostgresError:
        await _drop_invalid_index(connection, index)
        raise


IS_INVALID = "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"


async def _drop_invalid_index(connection: Connection, index: str) -> bool:
    """Whether there was one."""
    if not await connection.fetchval(IS_INVALID, index):
        return False
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index}")
    return True


async def _run_batches(connection: Connection, statement: SqlStatement) -> None:
    while True:
        changed = await connection.execute(statement.text)
        if changed.endswith(" 0"):
            return
        await asyncio.sleep(_BATCH_PAUSE_S)


LONG_TRANSACTIONS = """
SELECT pid, application_name, extract(epoch FROM now() - xact_start)::float8 AS age_s
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < now() - $1 * interval '1 s'
ORDER BY xact_start
LIMIT 3
"""


async def _not_locked(connection: Connection, migration: Migration, deadline: _Deadline) -> MigrationError:
    rows = await connection.fetch(LONG_TRANSACTIONS, LOCK_TIMEOUT_S)
    open_ = ", ".join(
        f"PostgreSQL process {row['pid']} of {row['application_name'] or 'an unnamed program'} for {row['age_s']:.0f} s"
        for row in rows
    )
    return MigrationError(
        f"Migration {migration.name} could not lock its tables within {deadline.within_s:g} s, because another "
        f"transaction uses them{f' (open: {open_})' if open_ else ''}. It blocked nobody for longer than "
        f"{LOCK_TIMEOUT_S:g} s: run `tonne migrate` again, if necessary at a quieter time."
    )
