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
    """The strongest locks on each table, and those under which more is done. Tables that it creates are left out.

    A transaction keeps what it has locked: a statement works under the strongest lock on its table so far.
    """
    created = created_tables(migration.statements) - existing
    found: set[TableLock] = set()
    held: dict[str, LockMode] = {}
    for statement in migration.statements:
        if not migration.in_transaction:
            held.clear()
        taken = [
            (tables_of_indexes.get(lock.table, lock.table) if lock.is_index else lock.table, lock)
            for lock in locks_of(statement)
        ]
        for table, lock in taken:
            held[table] = max(held.get(table, lock.mode), lock.mode, key=_STRENGTH)
        found |= {TableLock(table, held[table], lock.work) for table, lock in taken if table not in created}
    strongest = (lock for lock in found if not any(_covers(other, lock) for other in found))
    return sorted(strongest, key=lambda lock: (lock.table, _STRENGTH(lock.mode)))


_STRENGTH, _EXTENT = list(LockMode).index, list(Work).index


def _covers(other: TableLock, lock: TableLock) -> bool:
    return (
        other.table == lock.table
        and other != lock
        and _STRENGTH(other.mode) >= _STRENGTH(lock.mode)
        and _EXTENT(other.work) >= _EXTENT(lock.work)
    )
