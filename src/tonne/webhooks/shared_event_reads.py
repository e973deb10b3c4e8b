"""SharedEventReads of events, read once for all webhooks of an organisation that ask for them within a moment."""

import asyncio
import time

from tonne.base.scope import Mode
from tonne.db.pool import Database
from tonne.webhooks import delivery_store as lane_store
from tonne.webhooks.model import Batch, Lease

# Webhooks of one organisation walk through its stream side by side, a little apart. Not longer, or a worker would hold
# on to what nobody asks for.
KEPT_S = 0.1

Place = tuple[str, Mode, int, int]


class SharedEventReads:
    """Events never change, so whoever asks while the same run is on its way, or has just come, gets that one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # In the order in which they were asked for, each with the moment until which it is kept.
        self._known: dict[Place, tuple[float, asyncio.Future[Batch | None]]] = {}

    async def read(self, lease: Lease, after: int, limit: int) -> Batch | None:
        now = time.monotonic()
        self._forget(now)
        place = (lease.organisation_id, lease.mode, after, limit)
        known = self._known.get(place)
        if known is not None:
            # Shielded: one that gives up must not take the reading away from the others.
            return known[1].result() if known[1].done() else await asyncio.shield(known[1])
        coming: asyncio.Future[Batch | None] = asyncio.get_running_loop().create_future()
        self._known[place] = (now + KEPT_S, coming)
        try:
            async with self._database.connection() as connection:
                batch = await lane_store.read_run(connection, lease, after, limit)
        except BaseException as error:
            # Whoever waits for it fares as this one does. Whoever asks next asks the database.
            del self._known[place]
            coming.set_exception(error if isinstance(error, Exception) else ConnectionError("the reading was given up"))
            coming.exception()  # perhaps nobody waits
            raise
        coming.set_result(batch)
        return batch

    def _forget(self, now: float) -> None:
        for place, (until, coming) in list(self._known.items()):
            if until > now:
                break
            if coming.done():
                del self._known[place]
