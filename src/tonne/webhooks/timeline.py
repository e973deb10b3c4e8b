"""Which webhooks got the events of an order."""

import asyncpg

from tonne.base.scope import Scope
from tonne.base.timeline import TimelineEntry
from tonne.db.pool import Connection

_TIME_DIGITS = 9
# The scope of a webhook at an event's position is the latest row of webhook_scopes up to it.
LIST_DELIVERIES_OF_ORDER = """
SELECT event.event_type, event.sequence, webhook.id AS webhook_id, webhook.url, webhook.enabled,
       webhook.cursor_position >= event.position
         AND (parked.position IS NULL OR event.position < parked.position) AS is_done,
       skip.skipped_at, skip.skipped_by, attempt.at AS attempted_at, attempt.acknowledged, attempt.status,
       attempt.error, coalesce(parked.next_attempt_at, webhook.next_attempt_at) AS next_attempt_at
FROM events event
JOIN webhooks webhook ON webhook.organisation_id = event.organisation_id AND webhook.mode = event.mode
  AND webhook.deleted_at IS NULL
CROSS JOIN LATERAL (
    SELECT account_ids FROM webhook_scopes
    WHERE organisation_id = event.organisation_id AND webhook_id = webhook.id AND from_position <= event.position
    ORDER BY from_position DESC LIMIT 1
) AS covered
LEFT JOIN webhook_parked parked ON parked.organisation_id = event.organisation_id
  AND parked.webhook_id = webhook.id AND parked.account_id = event.account_id
LEFT JOIN webhook_skips skip ON skip.organisation_id = event.organisation_id AND skip.webhook_id = webhook.id
  AND skip.position = event.position
LEFT JOIN LATERAL (
    SELECT at, acknowledged, status, error FROM webhook_attempts
    WHERE organisation_id = event.organisation_id AND webhook_id = webhook.id AND positions @> ARRAY[event.position]
    ORDER BY at DESC LIMIT 1
) AS attempt ON true
WHERE event.organisation_id = $1 AND event.mode = $2 AND event.account_id = $3 AND event.subject_id = $4
  AND event.id >= $5 AND (covered.account_ids = '{}' OR event.account_id = ANY (covered.account_ids))
ORDER BY event.position, webhook.id
"""


async def webhook_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    """Delivered, skipped or still waiting. Attempts are deleted after a while: then only the event's time is known."""
    first_id = f"evt_{order_id.partition('_')[2][:_TIME_DIGITS]}"
    place = (scope.organisation_id, scope.mode, scope.account_id, order_id, first_id)
    return [_entry(row) for row in await connection.fetch(LIST_DELIVERIES_OF_ORDER, *place)]


def _entry(row: asyncpg.Record) -> TimelineEntry:
    named, id_ = f"{row['event_type']} to {row['url']}", row["webhook_id"]
    if row["skipped_at"] is not None:
        text, actor = f"{named} skipped", row["skipped_by"]
        return TimelineEntry(at=row["skipped_at"], kind="webhook", text=text, actor=actor, subject_id=id_)
    attempted_at = row["attempted_at"]
    if row["is_done"]:
        return TimelineEntry(
            at=attempted_at or row["sequence"], kind="webhook", text=f"{named} delivered", subject_id=id_
        )
    failure = row["error"] or (f"status {row['status']}" if row["status"] else None)
    last = f". The last attempt failed: {failure}" if failure and not row["acknowledged"] else ""
    if not row["enabled"]:
        at, text = attempted_at or row["sequence"], f"{named} waits until the webhook is enabled{last}"
        return TimelineEntry(at=at, kind="webhook", text=text, subject_id=id_, is_planned=True)
    text = f"{named} waits{last}"
    return TimelineEntry(at=row["next_attempt_at"], kind="webhook", text=text, subject_id=id_, is_planned=True)
