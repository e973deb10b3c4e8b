"""SQL of floors: events up to the floor of their stream were removed."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tonne.platform.db.database import Connection, columns
from tonne.platform.events.errors import EventsRemoved
from tonne.platform.events.log import lock_streams
from tonne.platform.events.notification import Stream
from tonne.platform.values.context import Mode, Scope, to_wire


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
    count: int = await connection.fetchval(COUNT_ABOVE_FLOORS, start, end, timeout=within_s)
    return count
