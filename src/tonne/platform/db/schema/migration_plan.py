"""What `tonne migrate` would do: the pending migrations, their locks, and the rows that they change."""

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migrate import applied_migrations, pending_migrations
from tonne.platform.db.schema.migration_files import REPEAT, Migration
from tonne.platform.db.schema.statement_locks import LockMode, TableLock, Work, created_tables, locks_of


class PlannedMigration(Struct, frozen=True):
    """`rows_rewritten` is an estimate: all rows of each table that a statement updates or rewrites."""

    migration: Migration
    locks: tuple[TableLock, ...]
    rows_rewritten: int
    batches: int
    # Servers of the release that the database is at can serve requests during and after this migration.
    previous_release_can_run: bool


async def plan_migrations(connection: Connection) -> list[PlannedMigration]:
    """The pending migrations in order. Reads only; raises what `tonne migrate` would raise."""
    applied = await applied_migrations(connection)
    newest = applied[-1].version if applied else 0
    sizes = await _table_sizes(connection)
    tables_of_indexes = await _tables_of_indexes(connection)
    planned = []
    for migration in await pending_migrations(connection):
        locks = _locks(migration, set(sizes), tables_of_indexes)
        rewritten = {lock.table for lock in locks if lock.work is Work.REWRITES}
        planned.append(
            PlannedMigration(
                migration,
                tuple(locks),
                rows_rewritten=sum(sizes.get(table, 0) for table in rewritten),
                batches=sum(REPEAT in statement.comments for statement in migration.statements),
                previous_release_can_run=bool(applied) and migration.compatible_from <= newest,
            )
        )
    return planned


# For a partitioned table, the sum of its partitions; -1 for a table that was never analysed.
TABLE_SIZES = """
SELECT class.relname,
       greatest(class.reltuples, 0)::bigint
       + coalesce((SELECT sum(greatest(part.reltuples, 0))::bigint FROM pg_inherits
                   JOIN pg_class part ON part.oid = pg_inherits.inhrelid WHERE pg_inherits.inhparent = class.oid), 0)
       AS estimate
FROM pg_class class
WHERE class.relnamespace = current_schema()::regnamespace AND class.relkind IN ('r', 'p')
"""


async def _table_sizes(connection: Connection) -> dict[str, int]:
    return {row["relname"]: row["estimate"] for row in await connection.fetch(TABLE_SIZES)}


INDEXES = """
SELECT index_class.relname AS index_name, table_class.relname AS table_name
FROM pg_index
JOIN pg_class index_class ON index_class.oid = pg_index.indexrelid
JOIN pg_class table_class ON table_class.oid = pg_index.indrelid
WHERE index_class.relnamespace = current_schema()::regnamespace
"""


async def _tables_of_indexes(connection: Connection) -> dict[str, str]:
    return {row["index_name"]: row["table_name"] for row in await connection.fetch(INDEXES)}


def _locks(migration: Migration, existing: set[str], tables_of_indexes: dict[str, str]) -> list[TableLock]:
    """The strongest lock on each table, with the longest work. Tables that the migration creates are left out."""
    created = created_tables(migration.statements) - existing
    strongest: dict[str, TableLock] = {}
    for lock in (lock for statement in migration.statements for lock in locks_of(statement)):
        table = tables_of_indexes.get(lock.table, lock.table) if lock.is_index else lock.table
        if table in created:
            continue
        before = strongest.get(table, TableLock(table, lock.mode, lock.work))
        mode = max(before.mode, lock.mode, key=list(LockMode).index)
        work = max(before.work, lock.work, key=list(Work).index)
        strongest[table] = TableLock(table, mode, work)
    return [strongest[table] for table in sorted(strongest)]
