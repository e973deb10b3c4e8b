"""Delete the traces of events that have been delivered long ago."""

from dataclasses import dataclass
from datetime import timedelta

from tonne.platform.db.pool import Database
from tonne.platform.events.trace_store import prune_traces_any_account

# Longer than a collector waits for the rest of a trace, and than the retries of a receiver that is down for days.
KEEP = timedelta(days=7)
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class PruneTraces:
    """Runs also without tracing: it may have been on before."""

    database: Database

    async def run_once(self) -> bool:
        async with self.database.connection() as connection:
            return await prune_traces_any_account(connection, KEEP, _BATCH) == _BATCH
