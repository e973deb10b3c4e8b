"""SQL of partitions that were removed."""

from datetime import datetime

import asyncpg
from msgspec import Struct

from tonne.apps.privacy.retention.archive_file import ArchiveManifest
from tonne.platform.db.database import Connection, parameters_of
from tonne.platform.db.schema.partitions import Partition, PartitionedTable
from tonne.platform.db.session_settings import LONG_STATEMENT_S, lift_limits

# Queries wait behind a lock request that waits.
LOCK_TIMEOUT_MS = 300
# Key of the advisory lock that serialises removals. The number is arbitrary.
_LOCK = 7_405_610_216
_COLUMNS = "name, table_name, starts_at, ends_at, row_count, removed_at, removed_by, file_name, byte_count, sha256"


class RemovedPartition(Struct, frozen=True):
    """`file_name`, `byte_count` and `sha256` are of the archive, None if there is none."""

    name: str
    table_name: str
    starts_at: datetime | None
    ends_at: datetime
    row_count: int
    removed_at: datetime
    removed_by: str
    file_name: str | None
    byte_count: int | None
    sha256: str | None


RECORD_REMOVAL = f"""
INSERT INTO removed_partitions ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""  # noqa: S608 - only the constant above is inserted


async def record_removal(tx: Connection, removed: RemovedPartition) -> None:
    await tx.execute(RECORD_REMOVAL, *parameters_of(removed, _COLUMNS))


LIST_REMOVED = f"SELECT {_COLUMNS} FROM removed_partitions ORDER BY table_name, ends_at"  # noqa: S608 - see above


async def list_removed(connection: Connection) -> list[RemovedPartition]:
    return [RemovedPartition(**row) for row in await connection.fetch(LIST_REMOVED)]


async def list_archived(connection: Connection) -> list[RemovedPartition]:
    """The removed partitions that have an archive."""
    return [removed for removed in await list_removed(connection) if removed.file_name is not None]


async def begin_removal(tx: Connection) -> bool:
    """False if another process removes partitions now. The transaction may take long, its waits for locks not."""
    await lift_limits(tx)
    await tx.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
    return await tx.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK) is True


async def summarise(tx: Connection, partition: Partition) -> tuple[int, int]:
    """The number of rows, and a number that changes with any of them."""
    # A name of ours. The rows may be many.
    statement = f"SELECT count(*), bit_xor(hashtextextended(row::text, 0)) FROM {partition.name} AS row"  # noqa: S608
    found = await tx.fetchrow(statement, timeout=LONG_STATEMENT_S)
    return (found[0], found[1] or 0) if found else (0, 0)


async def lock_rows(tx: Connection, partition: Partition) -> None:
    """Until the end of the transaction nobody writes to the partition; it can be read."""
    await tx.execute(f"LOCK TABLE {partition.name} IN SHARE MODE")


async def drop(tx: Connection, table: PartitionedTable, partition: Partition) -> bool:
    """False if the table is in use for longer than a moment."""
    try:
        async with tx.transaction():
            await tx.execute(f"ALTER TABLE {table.name} DETACH PARTITION {partition.name}")
            await tx.execute(f"DROP TABLE {partition.name}")
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return False
    return True


def removal_of(
    table: PartitionedTable, partition: Partition, rows: int, *, at: datetime, by: str, manifest: ArchiveManifest | None
) -> RemovedPartition:
    archive = (None, None, None) if manifest is None else (manifest.file_name, manifest.byte_count, manifest.sha256)
    return RemovedPartition(partition.name, table.name, partition.start, partition.end, rows, at, by, *archive)
