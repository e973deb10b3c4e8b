"""A job: delete quotes that expired long ago."""

from datetime import timedelta
from typing import ClassVar

from tonne.platform.db.database import Database
from tonne.platform.values.context import Clock
from tonne.selling.orders.quotes.store import prune_quotes

BATCH_ROWS = 1000
KEPT = timedelta(days=30)


class PruneQuotes:
    EVERY_S: ClassVar[int] = 300

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def run_once(self) -> bool:
        """Delete one batch. True when there may be more."""
        deleted = await self._database.run(prune_quotes, self._clock() - KEPT, BATCH_ROWS)
        return deleted == BATCH_ROWS
