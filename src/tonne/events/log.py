"""The event log: one stream per organisation and mode, gapless, in commit order. It knows no capability."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tonne.base.ids import new_id
from tonne.base.scope import Mode, Scope
from tonne.db.pool import Connection

API_VERSION = "v1"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """`document` is the JSON of `data`'s single member, exactly as every delivery will carry it."""

    event_type: str
    subject: str
    subject_id: str
    document: str


OPEN_STREAM = "INSERT INTO event_streams (organisation_id, mode) VALUES ($1, $2)"


async def open_stream(tx: Connection, organisation_id: str, mode: Mode) -> None:
    await tx.execute(OPEN_STREAM, organisation_id, mode)


# The counter row is locked and advanced in the statement that inserts, so that the lock is held only from here to
# the commit. The sequence is the time, pushed on where the clock stands still or steps back.
APPEND = f"""
WITH stream AS (
    UPDATE event_streams
    SET last_position = last_position + cardinality($5::text[]),
        last_sequence = greatest(last_sequence + interval '1 ms', $4::timestamptz)
                        + (cardinality($5::text[]) - 1) * interval '1 ms'
    WHERE organisation_id = $1 AND mode = $2
    RETURNING last_position - cardinality($5::text[]) AS before_position,
              last_sequence - cardinality($5::text[]) * interval '1 ms' AS before_sequence
), numbered AS (
    SELECT before_position + n AS position, before_sequence + n * interval '1 ms' AS sequence,
           id, event_type, subject, subject_id, document
    FROM stream, unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
                 WITH ORDINALITY AS event (id, event_type, subject, subject_id, document, n)
)
INSERT INTO events (organisation_id, mode, account_id, position, sequence, id, event_type, subject_id, payload)
SELECT $1, $2, $3::text, position, sequence, id, event_type, subject_id,
       '{{"api_version":"{API_VERSION}","event_id":"' || id || '","account_id":"' || $3::text
       || '","event_type":"' || event_type
       || '","sequence":"' || to_char(sequence AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
       || '","data":{{"' || subject || '":' || document || '}}}}'
FROM numbered
"""  # noqa: S608 - the one value put in is a constant above


async def append(tx: Connection, scope: Scope, events: Sequence[NewEvent], now: datetime) -> None:
    """Add events of one account to its stream, in order. Call it last in the transaction, and once per stream.

    Transactions that append to several streams must do so in sorted order of (organisation, mode), or two of them
    could wait for each other.
    """
    status = await tx.execute(
        APPEND,
        scope.organisation_id,
        scope.mode,
        scope.account_id,
        now,
        [new_id("evt") for _ in events],
        [event.event_type for event in events],
        [event.subject for event in events],
        [event.subject_id for event in events],
        [event.document for event in events],
    )
    if status != f"INSERT 0 {len(events)}":
        raise LookupError(f"no event stream for {scope.organisation_id} in {scope.mode} mode")
