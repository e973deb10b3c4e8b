"""A job: remove requests from the log that are older than a week."""

from datetime import timedelta

import asyncpg
import structlog

from tonne.platform.db.batches import RowJob
from tonne.platform.http.request_log import store

# How long pages show a request.
SHOWN = timedelta(days=7)
# A partition has the requests of one day, so that they are removed up to a day later.
KEPT = timedelta(days=8)
# Partitions that are emptied before their turn: the worker may be away for a day.
AHEAD = (1, 2)
BATCH_ROWS = 1_000
# Pages wait behind a lock request that waits.
LOCK_TIMEOUT_MS = 300

_log = structlog.get_logger()


class PruneRequests(RowJob, frozen=True):
    async def run_once(self) -> bool:
        """Truncate the partitions whose turn comes next. True when there may be more to do.

        If the worker was away for days, partitions in use may have old rows: those are deleted.
        """
        now = self.clock()
        for days in AHEAD:
            if not await self._truncate(store.slot_of(now + timedelta(days=days))):
                return False
        async with self.database.connection() as connection:
            deleted = [
                await store.delete_requests(connection, slot, now - KEPT, BATCH_ROWS) for slot in range(store.SLOTS)
            ]
        return BATCH_ROWS in deleted

    async def _truncate(self, slot: int) -> bool:
        """False if the partition is locked: the next run tries again."""
        try:
            async with self.database.transaction() as tx:
                if await store.has_requests_any_account(tx, slot):
                    await tx.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
                    await store.truncate_slot(tx, slot)
        except asyncpg.LockNotAvailableError:
            _log.warning("requests_not_removed", slot=slot, reason="locked")
            return False
        return True
