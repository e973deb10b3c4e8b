"""The traces that events belong to. A worker that delivers them continues these traces.

Not a column of `events`: nearly all installations have no traces, and those that have need them only for days.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Mode, Scope

# Events are partitioned by sequence, which is never below the time of the append.
_MARGIN = timedelta(seconds=1)


class TracedEvent(NamedTuple):
    scope: Scope
    event_id: str
    trace: str | None


STORE_TRACES = """
INSERT INTO event_traces (organisation_id, mode, position, trace, stored_at)
SELECT event.organisation_id, event.mode, event.position, traced.trace, clock_timestamp()
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS traced (organisation_id, mode, id, trace)
JOIN events event
  ON event.organisation_id = traced.organisation_id AND event.mode = traced.mode AND event.id = traced.id
     AND event.sequence >= $5
"""


async def store_traces(tx: Connection, events: Sequence[TracedEvent], now: datetime) -> None:
    """Events without a trace are left out. Call it in the transaction that has appended them, at the same time."""
    traced = [event for event in events if event.trace is not None]
    if traced:
        await tx.execute(
            STORE_TRACES,
            [event.scope.organisation_id for event in traced],
            [event.scope.mode for event in traced],
            [event.event_id for event in traced],
            [event.trace for event in traced],
            now - _MARGIN,
        )


READ_TRACES = """
SELECT DISTINCT trace FROM event_traces WHERE organisation_id = $1 AND mode = $2 AND position = ANY ($3::bigint[])
"""


async def read_traces(connection: Connection, organisation_id: str, mode: Mode, positions: Sequence[int]) -> list[str]:
    return [row["trace"] for row in await connection.fetch(READ_TRACES, organisation_id, mode, list(positions))]


# now(), because an index cannot be searched for clock_timestamp().
PRUNE_TRACES = """
DELETE FROM event_traces
WHERE ctid = ANY (ARRAY(SELECT ctid FROM event_traces WHERE stored_at < now() - $1::interval LIMIT $2))
"""


async def prune_traces(connection: Connection, keep: timedelta, limit: int) -> int:
    """How many were deleted."""
    return int((await connection.execute(PRUNE_TRACES, keep, limit)).removeprefix("DELETE "))


# Longer than a collector waits for the rest of a trace, and than the retries of a receiver that is down for days.
KEEP = timedelta(days=7)
_BATCH = 1_000


class PruneTraces(Struct, frozen=True):
    """Deletes the traces of old events. Runs also without tracing: it may have been on before."""

    database: Database

    async def run_once(self) -> bool:
        return await self.database.run(prune_traces, KEEP, _BATCH) == _BATCH
