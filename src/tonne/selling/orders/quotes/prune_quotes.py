"""A job: delete quotes that expired long ago."""

from datetime import timedelta
from typing import ClassVar

from tonne.platform.db.batches import RowJob
from tonne.selling.orders.quotes.store import prune_quotes

BATCH_ROWS = 1000
KEPT = timedelta(days=30)


class PruneQuotes(RowJob, frozen=True):
    EVERY_S: ClassVar[int] = 300

    async def run_once(self) -> bool:
        """Delete one batch. True when there may be more."""
        deleted = await self.database.run(prune_quotes, self.clock() - KEPT, BATCH_ROWS)
        return deleted == BATCH_ROWS
