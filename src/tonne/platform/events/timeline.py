"""The events of an order."""

from datetime import datetime, timedelta

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

# More than the clocks of processes differ.
_MARGIN = timedelta(days=1)


def before_order(created_at: datetime) -> datetime:
    """A time before all events of an order, so that older partitions are not read."""
    return created_at - _MARGIN


LIST_EVENTS_OF_ORDER = """
SELECT id, event_type, sequence FROM events
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND subject_id = $4 AND sequence >= $5 ORDER BY position
"""


async def event_timeline(
    connection: Connection, scope: Scope, order_id: str, *, created_at: datetime
) -> list[TimelineEntry]:
    key = (scope.organisation_id, scope.mode, scope.account_id, order_id, before_order(created_at))
    return [
        TimelineEntry(at=row["sequence"], kind="event", text=row["event_type"], subject_id=row["id"])
        for row in await connection.fetch(LIST_EVENTS_OF_ORDER, *key)
    ]
