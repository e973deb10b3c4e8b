"""A job: remove the partitions that are older than the settings keep them.

The rows of a partition are archived, the archive is verified, and the partition dropped, all in one transaction: after
a crash at any point there is either the partition, or a verified archive.
"""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import structlog
from msgspec import Struct

from tonne.apps.privacy.retention import removal_store
from tonne.apps.privacy.retention.archive_file import ArchiveError, ArchiveWriter, read_lines
from tonne.apps.privacy.retention.removal_store import RemovedPartition
from tonne.channels.webhooks.undelivered import find_undelivered_any_account, lock_webhooks_any_account
from tonne.money.invoices.originals.file_store import find_last_retention_any_account
from tonne.platform.db.batches import RowJobWithSettings
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.partitions import (
    ATTEMPTS,
    DOCUMENTS,
    EVENTS,
    MAILS,
    Partition,
    PartitionedTable,
    list_partitions,
)
from tonne.platform.db.session_settings import LONG_STATEMENT_S, lift_limits
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
from tonne.platform.values.context import Actor, By, Clock, job_actor

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
    by: By,
) -> RemovedPartition | NotRemoved:
    """Remove the oldest partition of a table. `connection` is used by nobody else. Raises ArchiveError."""
    if table == EVENTS and (reason := await _raise_floors(connection, partition)):
        return NotRemoved(partition.name, reason)
    if table.name not in (*parse_tables(settings.archive_tables), DOCUMENTS.name):
        async with connection.transaction():
            return await _remove(connection, table, partition, None, by=by)
    writer = await asyncio.to_thread(ArchiveWriter, settings.archive_path, table, partition)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            if reason := await _begin(connection, table, partition):
                return NotRemoved(partition.name, reason)
            summary = await removal_store.summarise(connection, partition)
            await _write_lines(connection, writer, table, partition)
        # Reads the whole file again, so not in a transaction.
        await asyncio.to_thread(writer.verify)
        async with connection.transaction():
            return await _remove(connection, table, partition, _Archived(summary, writer), by=by)
    finally:
        await asyncio.to_thread(writer.discard)


class _Archived(NamedTuple):
    """What was in the partition when it was archived, and the archive, which is verified and has no name yet."""

    summary: tuple[int, int]
    writer: ArchiveWriter


async def _begin(tx: Connection, table: PartitionedTable, partition: Partition) -> str:
    """The reason if the partition is not to be removed by this process now."""
    if not await removal_store.begin_removal(tx):
        return "another process removes partitions now"
    is_oldest = partition in (await list_partitions(tx, table))[:1]
    return "" if is_oldest else "it is not the oldest partition any more"


async def _remove(
    tx: Connection, table: PartitionedTable, partition: Partition, archived: _Archived | None, *, by: By
) -> RemovedPartition | NotRemoved:
    if reason := await _begin(tx, table, partition):
        return NotRemoved(partition.name, reason)
    await removal_store.lock_rows(tx, partition)
    if reason := await _needed(tx, table, partition, by.at):
        return NotRemoved(partition.name, reason)
    summary = await removal_store.summarise(tx, partition)
    if archived is not None and summary != archived.summary:
        return NotRemoved(partition.name, "its rows changed while they were archived")
    manifest = None if archived is None else await asyncio.to_thread(archived.writer.finish, by.at)
    if not await _drop(tx, table, partition):
        return NotRemoved(partition.name, f"the table {table.name} is in use all the time")
    removed = removal_store.removal_of(table, partition, summary[0], at=by.at, by=str(by.actor), manifest=manifest)
    await removal_store.record_removal(tx, removed)
    facts: dict[str, Any] = {"rows": summary[0], "file": removed.file_name, "sha256": removed.sha256}
    await record(tx, None, "partition.removed", by=by, subject_id=partition.name, **facts)
    return removed


async def _raise_floors(connection: Connection, partition: Partition) -> str:
    """The reason if a webhook needs events of the partition. Otherwise nothing reads them from now on."""
    start = partition.start or ALWAYS
    async with connection.transaction():
        await lift_limits(connection)
        ends = await list_ends_any_account(connection, start, partition.end, within_s=LONG_STATEMENT_S)
    async with connection.transaction():
        await lift_limits(connection)
        await lock_webhooks_any_account(connection, ends)
        undelivered = await find_undelivered_any_account(connection, ends)
        if undelivered:
            others = f" and {len(undelivered) - 1} more" if len(undelivered) > 1 else ""
            return f"webhook {undelivered[0]}{others} has not got all its events: repair or delete it"
        await raise_floors(connection, ends)
    return ""


async def _needed(tx: Connection, table: PartitionedTable, partition: Partition, now: datetime) -> str:
    """The reason if rows of the partition are needed. Call it while nobody writes to the partition."""
    start = partition.start or ALWAYS
    if table == EVENTS:
        above = await count_streams_above_floors(tx, start, partition.end, within_s=LONG_STATEMENT_S)
        return f"{above} streams have got new events in it: check the clocks of all machines" if above else ""
    if table == DOCUMENTS:
        kept_until = await find_last_retention_any_account(tx, start, partition.end)
        return f"documents in it are kept until {kept_until}" if kept_until and kept_until >= now.date() else ""
    if table == MAILS:
        unsent = await count_unsent(tx, start, partition.end)
        return f"{unsent} mails in it wait: see `tonne mail list --state failed` and `waiting`" if unsent else ""
    return ""


async def _write_lines(tx: Connection, writer: ArchiveWriter, table: PartitionedTable, partition: Partition) -> None:
    """In threads: compressing and hashing would stop all other jobs of the worker."""
    async for lines in read_lines(tx, table, partition.start or ALWAYS, partition.end):
        await asyncio.to_thread(writer.write, lines)


async def _drop(tx: Connection, table: PartitionedTable, partition: Partition) -> bool:
    for _ in range(DROP_TRIES):
        if await removal_store.drop(tx, table, partition):
            return True
        await asyncio.sleep(random.uniform(*_PAUSE_S))  # noqa: S311 - no secret
    return False


_log = structlog.get_logger()


def kept_days(settings: Settings, now: datetime) -> dict[PartitionedTable, int]:
    """How many days rows are kept at least, 0 for ever. Documents are kept by calendar year."""
    documents_from = datetime(now.year - settings.document_retention_years, 1, 1, tzinfo=UTC)
    return {
        EVENTS: settings.events_days,
        ATTEMPTS: settings.webhook_attempts_days,
        MAILS: settings.mails_days,
        DOCUMENTS: (now - documents_from).days,
    }


async def find_due(
    connection: Connection, settings: Settings, clock: Clock
) -> list[tuple[PartitionedTable, Partition]]:
    """The partitions with only rows that are old enough, oldest first. The last partition of a table is never due."""
    due = []
    for table, days in kept_days(settings, clock()).items():
        partitions = (await list_partitions(connection, table))[:-1] if days else []
        end = clock() - timedelta(days=days)
        due += [(table, partition) for partition in partitions if partition.end <= end]
    return due


async def remove_due(
    connection: Connection, settings: Settings, clock: Clock, actor: Actor
) -> Sequence[RemovedPartition | NotRemoved]:
    """Remove all that are due. If one of a table is not removed, the later ones of the table stay, too."""
    outcomes: list[RemovedPartition | NotRemoved] = []
    failed: ArchiveError | None = None
    stuck: set[PartitionedTable] = set()
    for table, partition in await find_due(connection, settings, clock):
        if table in stuck:
            continue
        try:
            outcome = await remove_partition(connection, settings, table, partition, by=actor.at(clock()))
        except ArchiveError as error:
            # The other tables may still be removed.
            failed = failed or error
            stuck.add(table)
            continue
        outcomes.append(outcome)
        if isinstance(outcome, NotRemoved):
            stuck.add(table)
    if failed is not None:
        raise failed
    return outcomes


class RemovePartitions(RowJobWithSettings, frozen=True):
    async def run_once(self) -> bool:
        """True when a partition was removed."""
        async with self.database.connection() as pooled:
            if not await find_due(pooled, self.settings, self.clock):
                return False
        connection = await self.database.connect()
        try:
            actor = job_actor("remove_partitions")
            outcomes = await remove_due(connection, self.settings, self.clock, actor)
        finally:
            await connection.close()
        for outcome in outcomes:
            if isinstance(outcome, NotRemoved):
                _log.warning("partition_not_removed", partition=outcome.partition, reason=outcome.reason)
            else:
                rows, file = outcome.row_count, outcome.file_name
                _log.info("partition_removed", partition=outcome.name, rows=rows, file=file)
        return any(isinstance(outcome, RemovedPartition) for outcome in outcomes)
