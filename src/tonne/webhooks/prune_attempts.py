"""A job: delete delivery attempts that are older than the settings keep them."""

from tonne.base.settings import Settings
from tonne.db.pool import Connection, Database

BATCH_ROWS = 5000

PRUNE_ATTEMPTS = """
DELETE FROM webhook_attempts WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM webhook_attempts WHERE at < now() - $1 * interval '1 day' LIMIT $2))
"""


async def prune_any_account(connection: Connection, days: int) -> bool:
    return await connection.execute(PRUNE_ATTEMPTS, days, BATCH_ROWS) == f"DELETE {BATCH_ROWS}"


class PruneAttempts:
    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._days = settings.webhook_attempts_days

    async def run_once(self) -> bool:
        """Delete one batch. True when there may be more."""
        async with self._database.connection() as connection:
            return await prune_any_account(connection, self._days)
