"""A job: adds what was counted of offset links to their days, so that reading them stays cheap."""

from typing import ClassVar

from tonne.channels.checkout.link_counts.count_store import fold_counts
from tonne.platform.db.pool import Database

BATCH_ROWS = 10_000


class FoldLinkCounts:
    # Totals are exact before their deltas are folded, too.
    EVERY_S: ClassVar[int] = 10

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run_once(self) -> bool:
        """Fold one batch. True when there may be more."""
        async with self._database.connection() as connection:
            return await fold_counts(connection, BATCH_ROWS) == BATCH_ROWS
