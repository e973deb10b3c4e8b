"""Reads the event log.

Events are partitioned by sequence, and searching all partitions costs several times as much as searching one. So reads
search a span of time first, and all partitions only if that does not find everything.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import asyncpg

from tonne.platform.db.database import Connection, columns
from tonne.platform.events.errors import EventsRemoved
from tonne.platform.events.log import lock_streams
from tonne.platform.events.notification import Stream
from tonne.platform.events.payload import head_of
from tonne.platform.values.context import Mode, Scope, made_at, to_wire

# Before and after every event.
ALWAYS = datetime(1, 1, 2, tzinfo=UTC)
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
# A page of a list is searched within this time first.
SPAN = timedelta(days=20)
# More than the clocks of processes differ, and than the time in an id differs from the sequence of its event.
_MARGIN = timedelta(days=1)

# A page of the log between two positions, in either direction, of one or all accounts. Four statements instead of one
# with optional conditions, so that each can use an index. An empty event type matches all.
_PAGE = f"""position, sequence, {head_of("events")} AS head, document FROM events
WHERE organisation_id = $1 AND mode = $2 AND position < $3 AND position > $4 AND ($5 = '' OR event_type = $5)
  AND sequence >= $7 AND sequence <= $8"""
LIST_NEWEST_FIRST = f"SELECT {_PAGE} ORDER BY position DESC LIMIT $6"
LIST_OLDEST_FIRST = f"SELECT {_PAGE} ORDER BY position LIMIT $6"
LIST_OF_ACCOUNT_NEWEST_FIRST = f"SELECT {_PAGE} AND account_id = $9 ORDER BY position DESC LIMIT $6"
LIST_OF_ACCOUNT_OLDEST_FIRST = f"SELECT {_PAGE} AND account_id = $9 ORDER BY position LIMIT $6"


class PageBounds(NamedTuple):
    """The positions between which a page is. `near` is about the sequence at which it begins, None if unknown."""

    below: int
    above: int
    near: datetime | None


async def list_events(
    connection: Connection,
    scope: Scope,
    bounds: PageBounds,
    *,
    account_id: str | None,
    event_type: str,
    oldest_first: bool,
    limit: int,
) -> Sequence[asyncpg.Record]:
    """Rows for `event_payload`, with position and sequence."""
    if account_id is None:
        statement = LIST_OLDEST_FIRST if oldest_first else LIST_NEWEST_FIRST
    else:
        statement = LIST_OF_ACCOUNT_OLDEST_FIRST if oldest_first else LIST_OF_ACCOUNT_NEWEST_FIRST
    key = (scope.organisation_id, scope.mode, bounds.below, bounds.above, event_type, limit)
    account = () if account_id is None else (account_id,)
    if bounds.near is not None:
        first, last = (-_MARGIN, SPAN) if oldest_first else (-SPAN, _MARGIN)
        rows = await connection.fetch(statement, *key, bounds.near + first, bounds.near + last, *account)
        if len(rows) == limit:
            return rows
    return await connection.fetch(statement, *key, ALWAYS, NEVER, *account)


FIND_EVENT = f"""
SELECT position, {head_of("events")} AS head, document FROM events
WHERE organisation_id = $1 AND mode = $2 AND id = $3 AND sequence >= $4 AND sequence <= $5
"""  # noqa: S608 - only the expression above is inserted


async def find_event(connection: Connection, scope: Scope, event_id: str) -> asyncpg.Record | None:
    """A row for `event_payload`, with the position."""
    key, made = (scope.organisation_id, scope.mode, event_id), made_at(event_id)
    if made is None:
        return None
    row = await connection.fetchrow(FIND_EVENT, *key, made - _MARGIN, made + _MARGIN)
    return row or await connection.fetchrow(FIND_EVENT, *key, ALWAYS, NEVER)


# Sequences increase with positions: a binary search over positions.
FIND_LAST_BEFORE = """
WITH RECURSIVE halves (low, high) AS (
    SELECT floor_position, last_position + 1 FROM event_streams WHERE organisation_id = $1 AND mode = $2
    UNION ALL
    SELECT CASE WHEN event.sequence < $3 THEN event.position ELSE low END,
           CASE WHEN event.sequence < $3 THEN high ELSE event.position END
    FROM halves JOIN events event
      ON event.organisation_id = $1 AND event.mode = $2 AND event.position = (low + high) / 2
    WHERE high - low > 1
)
SELECT max(low) FROM halves
"""


async def last_position_before(connection: Connection, scope: Scope, sequence: datetime) -> int:
    """The position of the last event with a lower sequence; the floor of the stream when there is none."""
    position: int | None = await connection.fetchval(FIND_LAST_BEFORE, scope.organisation_id, scope.mode, sequence)
    return position or 0


LIST_AT_POSITIONS = f"""
SELECT id, event_type, {head_of("events")} AS head, document FROM events
WHERE organisation_id = $1 AND mode = $2 AND position = ANY ($3) ORDER BY position
"""  # noqa: S608 - only the expression above is inserted


async def list_events_at(connection: Connection, scope: Scope, positions: Sequence[int]) -> Sequence[asyncpg.Record]:
    """Rows for `event_payload`, in order. Removed events are missing."""
    return await connection.fetch(LIST_AT_POSITIONS, scope.organisation_id, scope.mode, positions)


class Floor(NamedTuple):
    """`sequence` is that of the last event that was removed, None if none was."""

    position: int
    sequence: datetime | None

    def require_kept_from(self, moment: datetime, field: str) -> None:
        """Raise EventsRemoved if an event with that sequence or a later one was removed."""
        if self.sequence is not None and moment <= self.sequence:
            raise self.removed(field)

    def removed(self, field: str | None) -> EventsRemoved:
        last = to_wire(self.sequence) if self.sequence else "-"
        return EventsRemoved(
            f"Events up to {last} were removed, because they are older than the operator keeps them. The earliest "
            f"event is at position {self.position + 1} of the stream: give a later sequence.",
            field=field,
        )


READ_FLOOR = "SELECT floor_position, floor_sequence FROM event_streams WHERE organisation_id = $1 AND mode = $2"


async def read_floor(connection: Connection, scope: Scope) -> Floor:
    row = await connection.fetchrow(READ_FLOOR, scope.organisation_id, scope.mode)
    return Floor(0, None) if row is None else Floor(*row)


class StreamEnd(NamedTuple):
    """The last event of a stream within a span of time."""

    organisation_id: str
    mode: Mode
    position: int
    sequence: datetime


LIST_ENDS = """
SELECT organisation_id, mode, max(position) AS position, max(sequence) AS sequence
FROM events WHERE sequence >= $1 AND sequence < $2 GROUP BY organisation_id, mode ORDER BY organisation_id, mode
"""


async def list_ends_any_account(
    connection: Connection, start: datetime, end: datetime, *, within_s: float
) -> list[StreamEnd]:
    rows = await connection.fetch(LIST_ENDS, start, end, timeout=within_s)
    return [StreamEnd(row["organisation_id"], Mode(row["mode"]), row["position"], row["sequence"]) for row in rows]


RAISE_FLOORS = """
UPDATE event_streams stream SET floor_position = ends.position, floor_sequence = ends.sequence
FROM unnest($1::text[], $2::mode[], $3::bigint[], $4::timestamptz[]) AS ends (organisation_id, mode, position, sequence)
WHERE stream.organisation_id = ends.organisation_id AND stream.mode = ends.mode
  AND stream.floor_position < ends.position
"""


async def raise_floors(tx: Connection, ends: Sequence[StreamEnd]) -> None:
    """Call it last in the transaction: it locks the streams."""
    await lock_streams(tx, [Stream(end.organisation_id, end.mode) for end in ends])
    await tx.execute(RAISE_FLOORS, *columns(ends, "organisation_id, mode, position, sequence"))


COUNT_ABOVE_FLOORS = """
SELECT count(*) FROM (
    SELECT organisation_id, mode, max(position) AS position
    FROM events WHERE sequence >= $1 AND sequence < $2 GROUP BY organisation_id, mode
) ends LEFT JOIN event_streams stream USING (organisation_id, mode)
WHERE ends.position > coalesce(stream.floor_position, 0)
"""


async def count_streams_above_floors(connection: Connection, start: datetime, end: datetime, *, within_s: float) -> int:
    """How many streams have events of that time which are not below the floor."""
    return int(await connection.fetchval(COUNT_ABOVE_FLOORS, start, end, timeout=within_s))
