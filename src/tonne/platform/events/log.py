"""The event log: one stream per organisation and mode, gapless, in commit order."""

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from tonne.platform.db.database import Connection, columns
from tonne.platform.events.notification import Stream, note_appended
from tonne.platform.events.payload import encode_document
from tonne.platform.events.trace_store import TracedEvent, store_traces
from tonne.platform.process.telemetry import tracing
from tonne.platform.values.context import Mode, Scope, new_id


class NewEvent(msgspec.Struct, frozen=True):
    """`document` is the JSON of the subject. It is sent unchanged in every delivery.

    The type is the kind of the subject, a dot and what happened: `order.placed`.
    """

    event_type: str
    subject_id: str
    document: bytes
    # The trace that the event belongs to, if it is exported: its deliveries continue it.
    trace: str | None = msgspec.field(default_factory=tracing.sampled_context)


OPEN_STREAM = "INSERT INTO event_streams (organisation_id, mode) VALUES ($1, $2)"


async def open_stream(tx: Connection, organisation_id: str, mode: Mode) -> None:
    await tx.execute(OPEN_STREAM, organisation_id, mode)


# Locks and updates the counter in the statement that inserts the events, so that the lock is held only from here to the
# commit. The sequence is the current time, or the last sequence plus 1 ms if the clock has not advanced.
APPEND = """
WITH stream AS (
    UPDATE event_streams
    SET last_position = last_position + cardinality($5::text[]),
        last_sequence = greatest(last_sequence + interval '1 ms', $4::timestamptz)
                        + (cardinality($5::text[]) - 1) * interval '1 ms'
    WHERE organisation_id = $1 AND mode = $2
    RETURNING last_position - cardinality($5::text[]) AS before_position,
              last_sequence - cardinality($5::text[]) * interval '1 ms' AS before_sequence
), numbered AS (
    SELECT $3::text AS account_id, before_position + n AS position, before_sequence + n * interval '1 ms' AS sequence,
           id, event_type, subject_id, document
    FROM stream, unnest($5::text[], $6::text[], $7::text[], $8::bytea[])
                 WITH ORDINALITY AS event (id, event_type, subject_id, document, n)
)
INSERT INTO events (organisation_id, mode, account_id, position, sequence, id, event_type, subject_id, document)
SELECT $1, $2, account_id, position, sequence, id, event_type, subject_id, document
FROM numbered
"""


async def append(tx: Connection, scope: Scope, events: Sequence[NewEvent], now: datetime) -> None:
    """Append events of one account to its stream, in order. Call it last in the transaction.

    Use `append_to_streams` for several streams: it locks them in a fixed order, which prevents deadlocks.
    """
    ids = [new_id("evt") for _ in events]
    note_appended([Stream(scope.organisation_id, scope.mode)])
    status = await tx.execute(
        APPEND,
        scope.organisation_id,
        scope.mode,
        scope.account_id,
        now,
        ids,
        *_event_columns(events),
    )
    if status != f"INSERT 0 {len(events)}":
        raise LookupError(f"no event stream for {scope.organisation_id} in {scope.mode} mode")
    if tracing.is_on():
        traced = [TracedEvent(scope, event_id, event.trace) for event_id, event in zip(ids, events, strict=True)]
        await store_traces(tx, traced, now)


LIST_UNLOCKED_STREAMS = """
SELECT stream.organisation_id, stream.mode FROM event_streams stream
JOIN unnest($1::text[], $2::text[]) AS named (organisation_id, mode)
  ON stream.organisation_id = named.organisation_id AND stream.mode = named.mode
FOR UPDATE OF stream SKIP LOCKED
"""


async def list_unlocked_streams(connection: Connection, streams: Sequence[Stream]) -> set[Stream]:
    """The streams that no other transaction has locked. Call it outside of a transaction, so that it keeps no lock."""
    rows = await connection.fetch(LIST_UNLOCKED_STREAMS, *columns(streams, "organisation_id, mode"))
    return {Stream(row["organisation_id"], Mode(row["mode"])) for row in rows}


# Sorted to prevent deadlocks between transactions that append to several streams.
LOCK_STREAMS = """
SELECT stream.organisation_id, stream.mode FROM event_streams stream
JOIN (SELECT DISTINCT organisation_id, mode
      FROM unnest($1::text[], $2::text[]) AS each (organisation_id, mode)) named
  ON stream.organisation_id = named.organisation_id AND stream.mode = named.mode
ORDER BY stream.organisation_id, stream.mode FOR UPDATE OF stream
"""


async def lock_streams(tx: Connection, streams: Sequence[Stream]) -> None:
    """Call it before several appends to several streams in one transaction, and lock nothing else afterwards."""
    await tx.execute(LOCK_STREAMS, *columns(streams, "organisation_id, mode"))


APPEND_TO_STREAMS = """
WITH input AS (
    SELECT organisation_id, mode, account_id, id, event_type, subject_id, document,
           row_number() OVER (PARTITION BY organisation_id, mode ORDER BY n) AS n
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[])
         WITH ORDINALITY AS event (organisation_id, mode, account_id, id, event_type, subject_id, document, n)
), counts AS (
    SELECT organisation_id, mode, count(*) AS events FROM input GROUP BY organisation_id, mode
), streams AS (
    UPDATE event_streams stream
    SET last_position = last_position + events,
        last_sequence = greatest(last_sequence + interval '1 ms', $1::timestamptz) + (events - 1) * interval '1 ms'
    FROM counts WHERE stream.organisation_id = counts.organisation_id AND stream.mode = counts.mode
    RETURNING stream.organisation_id, stream.mode, last_position - events AS before_position,
              last_sequence - events * interval '1 ms' AS before_sequence
), numbered AS (
    SELECT input.organisation_id, input.mode, input.account_id, before_position + n AS position,
           before_sequence + n * interval '1 ms' AS sequence, id, event_type, subject_id, document
    FROM input JOIN streams ON streams.organisation_id = input.organisation_id AND streams.mode = input.mode
)
INSERT INTO events (organisation_id, mode, account_id, position, sequence, id, event_type, subject_id, document)
SELECT organisation_id, mode, account_id, position, sequence, id, event_type, subject_id, document
FROM numbered
"""


async def append_to_streams(tx: Connection, events: Sequence[tuple[Scope, NewEvent]], now: datetime) -> None:
    """Append events of several accounts to their streams, in order. Call it once, last in the transaction.

    A transaction that calls it several times locks all streams before, with `lock_streams`.
    """
    organisations, modes, accounts = columns([scope for scope, _ in events], "organisation_id, mode, account_id")
    streams = {Stream(scope.organisation_id, scope.mode) for scope, _ in events}
    await lock_streams(tx, list(streams))
    note_appended(streams)
    ids = [new_id("evt") for _ in events]
    status = await tx.execute(
        APPEND_TO_STREAMS,
        now,
        organisations,
        modes,
        accounts,
        ids,
        *_event_columns([event for _, event in events]),
    )
    if status != f"INSERT 0 {len(events)}":
        raise LookupError("an organisation has no event stream")
    if tracing.is_on():
        traced = [
            TracedEvent(scope, event_id, event.trace) for event_id, (scope, event) in zip(ids, events, strict=True)
        ]
        await store_traces(tx, traced, now)


NOTE_REWRITTEN = """
INSERT INTO pending_events (organisation_id, mode)
SELECT organisation_id, mode FROM unnest($1::text[], $2::mode[]) AS stream (organisation_id, mode)
"""


async def note_rewritten(tx: Connection, streams: Collection[Stream]) -> None:
    """The JSON of orders of these streams changes without an event: the commit raises `rewritten`.

    Call it anywhere in the transaction. One that also appends events to other streams locks all of them first, as for
    `record_optional`.
    """
    if streams:
        await tx.execute(NOTE_REWRITTEN, *columns(list(streams), "organisation_id, mode"))


def _event_columns(events: Sequence[NewEvent]) -> tuple[list[str], list[str], list[bytes]]:
    return (
        [event.event_type for event in events],
        [event.subject_id for event in events],
        [encode_document(event.document) for event in events],
    )
