"""Events beside those of orders: a stream records only the types that a webhook names.

They are appended when the transaction commits, by a trigger of `pending_events`: the changes that cause them lock
invoices, transfers and number series afterwards, and a stream must be locked last. If the event is about one order, the
trigger adds the JSON that the order has then.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from tonne.platform.db.database import Connection, columns
from tonne.platform.events.notification import Stream, note_appended
from tonne.platform.process.telemetry import tracing
from tonne.platform.values.context import Mode, Scope, new_id


class OptionalEvent(msgspec.Struct, frozen=True):
    """`document` is the JSON of what the event is about; the type starts with its name and a point.

    `subject_id` is the order if there is one, so that the event is found with the order.
    """

    event_type: str
    subject_id: str
    document: bytes
    order_id: str | None = None
    trace: str | None = msgspec.field(default_factory=tracing.sampled_context)


SET_RECORDED_TYPES = """
UPDATE event_streams SET recorded_types = $3
WHERE organisation_id = $1 AND mode = $2 AND recorded_types IS DISTINCT FROM $3
"""


async def set_recorded_types(tx: Connection, organisation_id: str, mode: Mode, types: Sequence[str]) -> None:
    """The types that the stream records from now on. The caller has locked the stream with `lock_streams`."""
    await tx.execute(SET_RECORDED_TYPES, organisation_id, mode, sorted(types))


FIND_RECORDING = """
SELECT stream.organisation_id, stream.mode
FROM unnest($1::text[], $2::mode[]) AS named (organisation_id, mode)
JOIN event_streams stream USING (organisation_id, mode)
WHERE stream.recorded_types && $3::text[]
"""


async def find_recording(tx: Connection, scopes: Collection[Scope], types: Sequence[str]) -> set[Stream]:
    """The streams of these accounts that record one of the types."""
    streams = {Stream(scope.organisation_id, scope.mode) for scope in scopes}
    rows = await tx.fetch(FIND_RECORDING, *columns(list(streams), "organisation_id, mode"), types)
    return {Stream(row["organisation_id"], row["mode"]) for row in rows}


_COLUMNS = "organisation_id, mode, account_id, id, event_type, subject_id, order_id, document, trace"
RECORD = f"""
INSERT INTO pending_events ({_COLUMNS}, at) SELECT {_COLUMNS}, $1
FROM unnest($2::text[], $3::mode[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[],
            $10::text[]) WITH ORDINALITY AS event ({_COLUMNS}, n)
WHERE EXISTS (SELECT FROM event_streams stream
              WHERE stream.organisation_id = event.organisation_id AND stream.mode = event.mode
                AND event.event_type = ANY (stream.recorded_types))
ORDER BY n
"""  # noqa: S608 - only the columns above are inserted


async def record_optional(tx: Connection, events: Sequence[tuple[Scope, OptionalEvent]], now: datetime) -> bool:
    """Append those events at the commit whose types their stream records. Call it anywhere in the transaction.

    Returns whether there are any. A transaction that also appends events of orders of other organisations locks all
    streams first, with `lock_streams`: the trigger locks those that are missing last.
    """
    if not events:
        return False
    organisations, modes, accounts = columns([scope for scope, _ in events], "organisation_id, mode, account_id")
    note_appended({Stream(scope.organisation_id, scope.mode) for scope, _ in events})
    status = await tx.execute(
        RECORD,
        now,
        organisations,
        modes,
        accounts,
        [new_id("evt") for _ in events],
        *columns([event for _, event in events], "event_type, subject_id, order_id, document, trace"),
    )
    return status != "INSERT 0 0"
