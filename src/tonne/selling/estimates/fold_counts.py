"""A job: adds the numbers of new estimates to their days, so that reading them stays cheap."""

from typing import ClassVar

from tonne.platform.db.database import Connection, Database

BATCH_ROWS = 500

# Sorted to prevent deadlocks between workers. Rows are found by their place in the table: a join would read the whole
# backlog for every batch.
FOLD_COUNTS = """
WITH taken AS (
    DELETE FROM estimate_deltas delta
    WHERE delta.ctid = ANY (ARRAY(SELECT ctid FROM estimate_deltas LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING delta.account_id, delta.day, delta.estimates
), folded AS (
    INSERT INTO estimate_days AS total (account_id, day, estimates)
    SELECT account_id, day, sum(estimates) FROM taken GROUP BY account_id, day ORDER BY account_id, day
    ON CONFLICT (account_id, day) DO UPDATE SET estimates = total.estimates + excluded.estimates
)
SELECT count(*) FROM taken
"""


async def fold_counts(connection: Connection, limit: int) -> int:
    """Add up to `limit` deltas to the days. Returns how many there were."""
    return int(await connection.fetchval(FOLD_COUNTS, limit))


class FoldEstimateCounts:
    # Totals are exact before their deltas are folded, too.
    EVERY_S: ClassVar[int] = 10

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run_once(self) -> bool:
        """Fold one batch. True when there may be more."""
        return await self._database.run(fold_counts, BATCH_ROWS) == BATCH_ROWS
