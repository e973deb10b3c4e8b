"""The events of an order."""

from tonne.base.scope import Scope
from tonne.base.timeline import TimelineEntry
from tonne.db.pool import Connection

# Ids begin with the time: events of an order have larger ids than the order. Without this, all events of the account
# would be read.
_TIME_DIGITS = 9
LIST_EVENTS_OF_ORDER = """
SELECT id, event_type, sequence FROM events
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND subject_id = $4 AND id >= $5 ORDER BY position
"""


async def event_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    first_id = f"evt_{order_id.partition('_')[2][:_TIME_DIGITS]}"
    place = (scope.organisation_id, scope.mode, scope.account_id, order_id, first_id)
    return [
        TimelineEntry(at=row["sequence"], kind="event", text=row["event_type"], subject_id=row["id"])
        for row in await connection.fetch(LIST_EVENTS_OF_ORDER, *place)
    ]
