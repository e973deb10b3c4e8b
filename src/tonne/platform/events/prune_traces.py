"""Delete the traces of events that have been delivered long ago."""

from datetime import timedelta

from msgspec import Struct

from tonne.platform.db.pool import Database
from tonne.platform.events.trace_store import prune_traces

# Longer than a collector waits for the rest of a trace, and than the retries of a receiver that is down for days.
KEEP = timedelta(days=7)
_BATCH = 10_000


class PruneTraces(Struct, frozen=True):
    """Runs also without tracing: it may have been on before."""

    database: Database

    async def run_once(self) -> bool:
        return await self.database.run(prune_traces, KEEP, _BATCH) == _BATCH
