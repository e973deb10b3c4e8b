"""Remove a partition: archive its rows, verify the archive, and drop it.

All in one transaction: after a crash at any point there is either the partition, or a verified archive.
"""

import asyncio
import random
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from tonne.apps.privacy.retention import removal_store
from tonne.apps.privacy.retention.archive_file import ArchiveManifest, ArchiveWriter
from tonne.apps.privacy.retention.archive_rows import read_lines
from tonne.apps.privacy.retention.removal_store import RemovedPartition
from tonne.channels.webhooks.undelivered import find_undelivered_any_account, lock_webhooks_any_account
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.partitions import EVENTS, MAILS, Partition, PartitionedTable, list_partitions
from tonne.platform.documents.mail.outbox import count_unsent
from tonne.platform.events.audit.record import record
from tonne.platform.events.store import (
    ALWAYS,
    count_streams_above_floors,
    list_ends_any_account,
    raise_floors,
)
from tonne.platform.settings.retention_settings import parse_tables
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor

# For statements that read a whole partition.
SCAN_WITHIN_S = 600.0
# To get the lock for dropping a partition, on a table that is always in use.
DROP_TRIES = 20
_PAUSE_S = (0.1, 1.0)


class NotRemoved(Struct, frozen=True):
    """Nothing was changed. The next run tries again."""

    partition: str
    reason: str


async def remove_partition(
    connection: Connection,
    settings: Settings,
    table: PartitionedTable,
    partition: Partition,
    *,
    actor: Actor,
    now: datetime,
) -> RemovedPartition | NotRemoved:
    """Remove the oldest partition of a table. `connection` is used by nobody else. Raises ArchiveError."""
    if table == EVENTS and (reason := await _raise_floors(connection, partition)):
        return NotRemoved(partition.name, reason)
    async with connection.transaction():
        if not await removal_store.begin_removal(connection):
            return NotRemoved(partition.name, "another process removes partitions now")
        if partition not in (await list_partitions(connection, table))[:1]:
            return NotRemoved(partition.name, "it is not the oldest partition any more")
        await removal_store.lock_rows(connection, partition)
        if reason := await _needed(connection, table, partition):
            return NotRemoved(partition.name, reason)
        rows = await _count(connection, partition)
        manifest = None
        if table.name in parse_tables(settings.archive_tables):
            manifest = await write_archive(connection, settings.archive_path, table, partition, now)
        if not await _drop(connection, table, partition):
            return NotRemoved(partition.name, f"the table {table.name} is in use all the time")
        removed = removal_store.removal_of(table, partition, rows, at=now, by=str(actor), manifest=manifest)
        await removal_store.record_removal(connection, removed)
        facts: dict[str, Any] = {"rows": rows, "file": removed.file_name, "sha256": removed.sha256}
        await record(connection, None, "partition.removed", actor=actor, at=now, subject_id=partition.name, **facts)
    return removed


async def _raise_floors(connection: Connection, partition: Partition) -> str:
    """The reason if a webhook needs events of the partition. Otherwise nothing reads them from now on."""
    start = partition.start or ALWAYS
    ends = await list_ends_any_account(connection, start, partition.end, within_s=SCAN_WITHIN_S)
    async with connection.transaction():
        await lock_webhooks_any_account(connection, ends)
        undelivered = await find_undelivered_any_account(connection, ends)
        if undelivered:
            others = f" and {len(undelivered) - 1} more" if len(undelivered) > 1 else ""
            return f"webhook {undelivered[0]}{others} has not got all its events: repair or delete it"
        await raise_floors(connection, ends)
    return ""


async def _needed(tx: Connection, table: PartitionedTable, partition: Partition) -> str:
    """The reason if rows of the partition are needed. Call it while nobody writes to the partition."""
    start = partition.start or ALWAYS
    if table == EVENTS:
        above = await count_streams_above_floors(tx, start, partition.end, within_s=SCAN_WITHIN_S)
        return f"{above} streams have got new events in it: check the clocks of all machines" if above else ""
    if table == MAILS:
        unsent = await count_unsent(tx, start, partition.end)
        return f"{unsent} mails in it wait: see `tonne mail list --state failed` and `waiting`" if unsent else ""
    return ""


async def _count(tx: Connection, partition: Partition) -> int:
    rows: int = await tx.fetchval(f"SELECT count(*) FROM {partition.name}", timeout=SCAN_WITHIN_S)  # noqa: S608 - ours
    return rows


async def write_archive(
    tx: Connection, folder: Path, table: PartitionedTable, partition: Partition, now: datetime
) -> ArchiveManifest:
    """In threads: compressing and hashing would stop all other jobs of the worker."""
    writer = await asyncio.to_thread(ArchiveWriter, folder, table, partition)
    try:
        async for lines in read_lines(tx, table, partition.start or ALWAYS, partition.end):
            await asyncio.to_thread(writer.write, lines)
        return await asyncio.to_thread(writer.finish, now)
    finally:
        await asyncio.to_thread(writer.discard)


async def _drop(tx: Connection, table: PartitionedTable, partition: Partition) -> bool:
    for _ in range(DROP_TRIES):
        if await removal_store.drop(tx, table, partition):
            return True
        await asyncio.sleep(random.uniform(*_PAUSE_S))  # noqa: S311 - no secret
    return False
