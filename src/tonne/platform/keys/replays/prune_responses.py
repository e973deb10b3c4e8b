"""A job: remove responses that are not sent again any more."""

from tonne.platform.db.database import Database
from tonne.platform.keys.replays.respond_once import KEPT
from tonne.platform.keys.replays.store import prune_responses
from tonne.platform.values.context import Clock

BATCH_ROWS = 1000


class PruneResponses:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def run_once(self) -> bool:
        """Remove one batch. True when there may be more."""
        return await self._database.run(prune_responses, self._clock() - KEPT, BATCH_ROWS) == BATCH_ROWS
