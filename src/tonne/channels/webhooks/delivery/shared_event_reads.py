"""One read of the stream for all webhooks of an organisation that need the same events at about the same time."""

import asyncio
import time

from tonne.channels.webhooks.delivery.batch_store import read_stream
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode

# Webhooks of one organisation read its stream almost in step. A longer time would only use memory.
KEEP_S = 0.1

ReadKey = tuple[str, Mode, int, int, tuple[str, ...]]


class SharedEventReads:
    """Events never change, so a read in progress or just finished serves every caller with the same arguments."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # In the order in which the reads were started, each with the time until which it is kept.
        self._reads: dict[ReadKey, tuple[float, asyncio.Future[EventBatch | None]]] = {}

    async def read(self, lease: Lease, after: int, limit: int) -> EventBatch | None:
        now = time.monotonic()
        self._drop_expired(now)
        key = (lease.organisation_id, lease.mode, after, limit, lease.delivered_types)
        if key in self._reads:
            shared = self._reads[key][1]
            # Shielded: a cancelled caller must not cancel the read for the others.
            return shared.result() if shared.done() else await asyncio.shield(shared)
        reading: asyncio.Future[EventBatch | None] = asyncio.get_running_loop().create_future()
        self._reads[key] = (now + KEEP_S, reading)
        try:
            batch = await self._database.run(read_stream, lease, after, limit)
        except BaseException as error:
            # Waiters get the same exception; later callers query again.
            del self._reads[key]
            reading.set_exception(error if isinstance(error, Exception) else ConnectionError("the read was cancelled"))
            reading.exception()  # without waiters, asyncio would log it as never retrieved
            raise
        reading.set_result(batch)
        return batch

    def _drop_expired(self, now: float) -> None:
        for key, (until, reading) in list(self._reads.items()):
            if until > now:
                break
            if reading.done():
                del self._reads[key]
