"""Rebuilds indexes while the service runs.

Where new entries go to places all over an index, a third of its pages is empty. A rebuilt one is full, and stays so
where no new entries arrive.
"""

from collections.abc import AsyncIterator, Sequence

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection

# Key of the advisory lock. Any number that no other code uses.
_LOCK = 7405610263


class Index(Struct, frozen=True):
    """`table` is the partition, if the table has partitions."""

    name: str
    table: str
    bytes: int


_INDEXES = """
quote_ident(class.relname) AS name, owner.relname AS table, pg_relation_size(class.oid) AS bytes
FROM pg_index JOIN pg_class class ON class.oid = indexrelid JOIN pg_class owner ON owner.oid = indrelid
WHERE class.relkind = 'i' AND class.relnamespace = current_schema()::regnamespace
"""
# Small ones first: the space that they free helps the large ones, of which there are two for a while. PostgreSQL cannot
# rebuild an exclusion constraint while its table is written.
LIST_INDEXES = f"""
SELECT {_INDEXES} AND indisvalid AND NOT indisexclusion AND pg_relation_size(class.oid) >= $1
  AND (cardinality($2::text[]) = 0
       OR ARRAY [owner.relname::text, pg_partition_root(owner.oid)::regclass::text] && $2)
ORDER BY bytes, name
"""


async def list_indexes(connection: Connection, at_least_bytes: int, tables: Sequence[str]) -> list[Index]:
    """Of these tables and partitions, or of all if none is named."""
    return [Index(**row) for row in await connection.fetch(LIST_INDEXES, at_least_bytes, tables)]


TRY_LOCK = "SELECT pg_try_advisory_lock($1)"


async def lock_reindexing(connection: Connection) -> bool:
    """Until the connection is closed; false if another process holds the lock."""
    return await connection.fetchval(TRY_LOCK, _LOCK) is True


# The names that PostgreSQL gives to the new index while it is built, and to the old one until it is dropped.
LIST_LEFT_OVER = f"SELECT {_INDEXES} AND NOT indisvalid AND class.relname ~ '_cc(new|old)[0-9]*$' ORDER BY name"


async def drop_left_over(connection: Connection) -> list[Index]:
    """Drop what a run that was interrupted has left. Every write to its table keeps it up to date for nothing."""
    found = [Index(**row) for row in await connection.fetch(LIST_LEFT_OVER)]
    for index in found:
        await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index.name}")
    return found


READ_SIZE = "SELECT pg_relation_size(to_regclass($1))"


async def rebuild(connection: Connection, indexes: Sequence[Index]) -> AsyncIterator[tuple[Index, int]]:
    """Each with the bytes that it has now. The connection must not be in a transaction.

    Tables can be read and written meanwhile. PostgreSQL waits for transactions that are older than a step.
    """
    for index in indexes:
        try:
            await connection.execute(f"REINDEX INDEX CONCURRENTLY {index.name}")
        except asyncpg.UndefinedTableError:
            continue  # its partition was removed
        yield index, await connection.fetchval(READ_SIZE, index.name) or 0
