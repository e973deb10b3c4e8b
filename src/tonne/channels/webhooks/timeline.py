"""Which webhooks got the events of an order."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tonne.channels.webhooks.model import types_of
from tonne.platform.db.database import Connection
from tonne.platform.events.timeline import before_order
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

# The attempts to deliver an event. They come after it, except that clocks may differ. If the event is a day older than
# the oldest attempt, the attempts of its time were deleted, and no partition is searched for them. A webhook that was
# registered after the event may have been rewound, so its attempts are always searched.
_ATTEMPTS = """
webhook_attempts WHERE organisation_id = event.organisation_id AND webhook_id = webhook.id
  AND event.position = ANY (positions) AND at >= event.sequence - interval '1 minute'
  AND (event.sequence > oldest.at - interval '1 day' OR event.sequence < webhook.created_at)
"""
# The scope of a webhook at an event's position is the latest row of webhook_scopes up to it.
_DELIVERIES = f"""
event.event_type, event.sequence, webhook.id AS webhook_id, webhook.url, webhook.enabled, done.is_done,
       event.id AS event_id, skip.skipped_at, skip.skipped_by, attempt.at AS attempted_at, attempt.acknowledged,
       attempt.status, attempt.error, coalesce(attempt.attempts, 0) AS attempts,
       coalesce(parked.next_attempt_at, webhook.next_attempt_at) AS next_attempt_at
FROM events event
JOIN webhooks webhook ON webhook.organisation_id = event.organisation_id AND webhook.mode = event.mode
  AND webhook.deleted_at IS NULL
CROSS JOIN LATERAL (
    SELECT account_ids, event_types FROM webhook_scopes
    WHERE organisation_id = event.organisation_id AND webhook_id = webhook.id AND from_position <= event.position
    ORDER BY from_position DESC LIMIT 1
) AS covered
LEFT JOIN webhook_parked parked ON parked.organisation_id = event.organisation_id
  AND parked.webhook_id = webhook.id AND parked.account_id = event.account_id
LEFT JOIN webhook_skips skip ON skip.organisation_id = event.organisation_id AND skip.webhook_id = webhook.id
  AND skip.position = event.position
CROSS JOIN LATERAL (
    SELECT webhook.cursor_position >= event.position
           AND (parked.position IS NULL OR event.position < parked.position) AS is_done
) AS done
CROSS JOIN LATERAL (
    SELECT min(at) AS at FROM webhook_attempts
    WHERE organisation_id = event.organisation_id AND webhook_id = webhook.id
) AS oldest
LEFT JOIN LATERAL (SELECT at FROM {_ATTEMPTS} AND acknowledged AND done.is_done ORDER BY at LIMIT 1)
  AS delivery ON true
LEFT JOIN LATERAL (
    SELECT at, acknowledged, status, error, count(*) OVER () AS attempts
    FROM {_ATTEMPTS} AND at <= coalesce(delivery.at, 'infinity') ORDER BY at DESC LIMIT 1
) AS attempt ON true
WHERE event.organisation_id = $1 AND event.mode = $2
  AND (covered.account_ids = '{{}}' OR event.account_id = ANY (covered.account_ids))
  AND event.event_type = ANY ({types_of("covered")})
"""  # noqa: S608 - only the expressions above are inserted
LIST_DELIVERIES_OF_ORDER = f"""
SELECT {_DELIVERIES} AND event.account_id = $3 AND event.subject_id = $4 AND event.sequence >= $5
ORDER BY event.position, webhook.id
"""


class EventDeliveryState(StrEnum):
    DELIVERED = "delivered"
    SKIPPED = "skipped"
    PENDING = "pending"
    # The last attempt was not acknowledged.
    FAILING = "failing"
    # The webhook is disabled.
    PAUSED = "paused"


class EventDelivery(Struct, frozen=True, kw_only=True):
    """An event of an order and one webhook, with the attempts until it was delivered.

    Attempts are deleted after a while: then only the event's time is known.
    """

    event_id: str
    event_type: str
    sequence: datetime
    webhook_id: str
    url: str
    enabled: bool
    is_done: bool
    skipped_at: datetime | None
    skipped_by: str | None
    attempted_at: datetime | None
    acknowledged: bool | None
    status: int | None
    error: str | None
    attempts: int
    next_attempt_at: datetime | None

    @property
    def state(self) -> EventDeliveryState:
        if self.skipped_at is not None:
            return EventDeliveryState.SKIPPED
        if self.is_done:
            return EventDeliveryState.DELIVERED
        if not self.enabled:
            return EventDeliveryState.PAUSED
        return EventDeliveryState.FAILING if self.failure else EventDeliveryState.PENDING

    @property
    def failure(self) -> str | None:
        """Why the last attempt failed."""
        if self.acknowledged or self.is_done:
            return None
        return f"status {self.status}" if self.status else self.error


async def list_deliveries(
    connection: Connection, scope: Scope, order_id: str, *, created_at: datetime
) -> list[EventDelivery]:
    """The deliveries of all events of the order to all webhooks, in the order of the events."""
    key = (scope.organisation_id, scope.mode, scope.account_id, order_id, before_order(created_at))
    return [EventDelivery(**row) for row in await connection.fetch(LIST_DELIVERIES_OF_ORDER, *key)]


LIST_DELIVERIES_OF_EVENT = f"SELECT {_DELIVERIES} AND event.position = $3 ORDER BY webhook.id"


async def event_deliveries(connection: Connection, scope: Scope, position: int) -> list[EventDelivery]:
    """One per webhook that gets the event at this position."""
    place = (scope.organisation_id, scope.mode, position)
    rows = await connection.fetch(LIST_DELIVERIES_OF_EVENT, *place)
    return [EventDelivery(**row) for row in rows]


async def webhook_timeline(
    connection: Connection, scope: Scope, order_id: str, *, created_at: datetime
) -> list[TimelineEntry]:
    """For each event and webhook: delivered, skipped or still waiting."""
    return [_entry(each) for each in await list_deliveries(connection, scope, order_id, created_at=created_at)]


def _entry(delivery: EventDelivery) -> TimelineEntry:
    named, id_ = f"{delivery.event_type} to {delivery.url}", delivery.webhook_id
    at = delivery.attempted_at or delivery.sequence
    if delivery.skipped_at is not None:
        text, actor = f"{named} skipped", delivery.skipped_by
        return TimelineEntry(at=delivery.skipped_at, kind="webhook", text=text, actor=actor, subject_id=id_)
    if delivery.is_done:
        return TimelineEntry(at=at, kind="webhook", text=f"{named} delivered", subject_id=id_)
    last = f". The last attempt failed: {delivery.failure}" if delivery.failure else ""
    if not delivery.enabled:
        text = f"{named} waits until the webhook is enabled{last}"
        return TimelineEntry(at=at, kind="webhook", text=text, subject_id=id_, is_planned=True)
    text, at = f"{named} waits{last}", delivery.next_attempt_at or at
    return TimelineEntry(at=at, kind="webhook", text=text, subject_id=id_, is_planned=True)
