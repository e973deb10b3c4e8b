"""A job: adds the changes of orders to the totals, so that reading them stays cheap."""

from typing import ClassVar

from tonne.platform.db.database import Connection, Database

BATCH_ROWS = 500

# Sorted to prevent deadlocks between workers. A row that is being written is not visible yet, and is folded later.
# Rows are found by their place in the table: a join would read the whole backlog for every batch.
FOLD_DELTAS = """
WITH taken AS (
    DELETE FROM order_deltas delta
    WHERE delta.ctid = ANY (ARRAY(SELECT ctid FROM order_deltas LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING delta.organisation_id, delta.mode, delta.month, delta.currency, delta.status, delta.orders, delta.grams,
              delta.cost_minor, delta.tax_minor, delta.refunded_minor
), folded AS (
    INSERT INTO order_totals AS total (organisation_id, mode, month, currency, status, orders, grams, cost_minor,
                                       tax_minor, refunded_minor)
    SELECT organisation_id, mode, month, currency, status, sum(orders), sum(grams), sum(cost_minor), sum(tax_minor),
           sum(refunded_minor)
    FROM taken GROUP BY organisation_id, mode, month, currency, status
    ORDER BY organisation_id, mode, month, currency, status
    ON CONFLICT (organisation_id, mode, month, currency, status) DO UPDATE
    SET orders = total.orders + excluded.orders, grams = total.grams + excluded.grams,
        cost_minor = total.cost_minor + excluded.cost_minor, tax_minor = total.tax_minor + excluded.tax_minor,
        refunded_minor = total.refunded_minor + excluded.refunded_minor
)
SELECT count(*) FROM taken
"""


async def fold_deltas(connection: Connection, limit: int) -> int:
    """Add up to `limit` deltas to the totals. Returns how many there were."""
    return int(await connection.fetchval(FOLD_DELTAS, limit))


class FoldTotals:
    # Totals are exact before their deltas are folded, too.
    EVERY_S: ClassVar[int] = 10

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run_once(self) -> bool:
        """Fold one batch. True when there may be more."""
        return await self._database.run(fold_deltas, BATCH_ROWS) == BATCH_ROWS
