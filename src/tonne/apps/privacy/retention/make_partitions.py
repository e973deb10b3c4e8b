"""A job: create the partitions of the next month."""

from datetime import datetime

import asyncpg
import structlog

from tonne.platform.db.batches import RowJob
from tonne.platform.db.schema.partitions import (
    PARTITIONED,
    PartitionedTable,
    create_partition,
    list_partitions,
    month_after,
)

# Queries wait behind a lock request that waits.
LOCK_TIMEOUT_MS = 300
# Key of the advisory lock that serialises workers. The number is arbitrary.
_LOCK = 7_405_610_215

_log = structlog.get_logger()


class MakePartitions(RowJob, frozen=True):
    """There are always partitions for this month and the next."""

    async def run_once(self) -> bool:
        """Create one missing partition. True when one was created, and there may be more to do."""
        until = month_after(month_after(self.clock()))
        for table in PARTITIONED:
            partitions = await self.database.run(list_partitions, table)
            if partitions and partitions[-1].end < until:
                return await self._create(table, partitions[-1].end)
        return False

    async def _create(self, table: PartitionedTable, start: datetime) -> bool:
        """The partition of the month from `start` on. False if the tables are locked: the next run tries again."""
        try:
            async with self.database.transaction() as tx:
                await tx.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
                await tx.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                partitions = await list_partitions(tx, table)
                if partitions[-1].end != start:
                    return True  # another worker has created it
                created = await create_partition(tx, table, start)
        except asyncpg.LockNotAvailableError:
            _log.warning("partition_not_created", table=table.name, start=start.isoformat(), reason="locked")
            return False
        _log.info("partition_created", partition=created.name)
        return True
