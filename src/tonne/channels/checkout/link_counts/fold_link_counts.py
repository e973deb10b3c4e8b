"""A job: adds what was counted of offset links to their days, so that reading them stays cheap."""

from typing import ClassVar

from msgspec import Struct

from tonne.channels.checkout.link_counts.count_store import fold_counts
from tonne.platform.db.database import Database

BATCH_ROWS = 10_000


class FoldLinkCounts(Struct, frozen=True):
    # Totals are exact before their deltas are folded, too.
    EVERY_S: ClassVar[int] = 10

    database: Database

    async def run_once(self) -> bool:
        """Fold one batch. True when there may be more."""
        return await self.database.run(fold_counts, BATCH_ROWS) == BATCH_ROWS
