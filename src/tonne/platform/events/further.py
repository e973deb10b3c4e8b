"""Events beside those of orders: they are recorded only where a webhook names their type.

They are appended when the transaction commits, by a trigger of `pending_events`: the changes that cause them lock
invoices, transfers and number series afterwards, and a stream must be locked last. If the event is about one order, the
trigger adds the JSON that the order has then.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from tonne.platform.db.columns import columns
from tonne.platform.db.pool import Connection
from tonne.platform.events.notification import Stream
from tonne.platform.process.telemetry import tracing
from tonne.platform.values.ids import new_id
from tonne.platform.values.scope import Scope


class FurtherEvent(msgspec.Struct, frozen=True):
    """`document` is the JSON of what the event is about; the type starts with its name and a point.

    `subject_id` is the order if there is one, so that the event is found with the order.
    """

    event_type: str
    subject_id: str
    document: bytes
    order_id: str | None = None
    trace: str | None = msgspec.field(default_factory=tracing.sampled_context)


FIND_WANTED = """
SELECT DISTINCT webhook.organisation_id, webhook.mode
FROM unnest($1::text[], $2::mode[]) AS wanted (organisation_id, mode)
JOIN webhooks webhook USING (organisation_id, mode)
WHERE webhook.deleted_at IS NULL AND webhook.event_types && $3::text[]
"""


async def find_wanting(tx: Connection, scopes: Collection[Scope], types: Sequence[str]) -> set[Stream]:
    """The streams of these accounts that have a webhook which names one of the types. A disabled one counts, too."""
    streams = {Stream(scope.organisation_id, scope.mode) for scope in scopes}
    rows = await tx.fetch(FIND_WANTED, *columns(list(streams), "organisation_id, mode"), types)
    return {Stream(row["organisation_id"], row["mode"]) for row in rows}


_COLUMNS = "organisation_id, mode, account_id, id, event_type, subject_id, order_id, document, trace"
RECORD = f"""
INSERT INTO pending_events ({_COLUMNS}, at) SELECT {_COLUMNS}, $1
FROM unnest($2::text[], $3::mode[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bytea[],
            $10::text[]) WITH ORDINALITY AS event ({_COLUMNS}, n)
WHERE EXISTS (SELECT FROM webhooks webhook
              WHERE webhook.organisation_id = event.organisation_id AND webhook.mode = event.mode
                AND webhook.deleted_at IS NULL AND event.event_type = ANY (webhook.event_types))
ORDER BY n
"""  # noqa: S608 - only the columns above are inserted


async def record_further(tx: Connection, events: Sequence[tuple[Scope, FurtherEvent]], now: datetime) -> bool:
    """Append those events at the commit whose types a webhook names. Call it anywhere in the transaction.

    Returns whether there are any. A transaction that also appends events of orders of other organisations locks all
    streams first, with `lock_streams`: the trigger locks those that are missing last.
    """
    if not events:
        return False
    organisations, modes, accounts = columns([scope for scope, _ in events], "organisation_id, mode, account_id")
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
