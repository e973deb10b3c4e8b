"""A job: remove the partitions that are older than the settings keep them."""

from collections.abc import Sequence
from datetime import timedelta

import structlog
from msgspec import Struct

from tonne.apps.privacy.retention.archive_file import ArchiveError
from tonne.apps.privacy.retention.removal_store import RemovedPartition
from tonne.apps.privacy.retention.remove_partition import NotRemoved, remove_partition
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.schema.partitions import ATTEMPTS, EVENTS, MAILS, Partition, PartitionedTable, list_partitions
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Clock, job_actor

_log = structlog.get_logger()


def kept_days(settings: Settings) -> dict[PartitionedTable, int]:
    """How many days rows are kept at least, 0 for ever."""
    return {EVENTS: settings.events_days, ATTEMPTS: settings.webhook_attempts_days, MAILS: settings.mails_days}


async def find_due(
    connection: Connection, settings: Settings, clock: Clock
) -> list[tuple[PartitionedTable, Partition]]:
    """The partitions with only rows that are old enough, oldest first. The last partition of a table is never due."""
    due = []
    for table, days in kept_days(settings).items():
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
            outcome = await remove_partition(connection, settings, table, partition, actor=actor, now=clock())
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


class RemovePartitions(Struct, frozen=True):
    database: Database
    clock: Clock
    settings: Settings

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
