"""A job: delete sessions and links that expired long ago, and challenges of passkeys that expired."""

from datetime import timedelta
from typing import ClassVar

from tonne.platform.db.database import Database
from tonne.platform.values.context import Clock
from tonne.selling.users.link_store import prune_links
from tonne.selling.users.second_factor.passkey_store import prune_challenges
from tonne.selling.users.store import prune_sessions

BATCH_ROWS = 1000
KEPT = timedelta(days=90)


class PruneSessions:
    EVERY_S: ClassVar[int] = 300

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def run_once(self) -> bool:
        """Delete one batch. True when there may be more."""
        now = self._clock()
        before = now - KEPT
        async with self._database.connection() as connection:
            deleted = (
                await prune_sessions(connection, before, BATCH_ROWS),
                await prune_links(connection, before, BATCH_ROWS),
                await prune_challenges(connection, now, BATCH_ROWS),
            )
        return BATCH_ROWS in deleted
