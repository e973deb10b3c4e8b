"""SQL of a webhook's progress through its stream, as the API reads and changes it."""

from tonne.channels.webhooks.delivery.parked_store import list_parked
from tonne.channels.webhooks.model import Progress, Webhook
from tonne.platform.db.database import Connection

READ_PROGRESS = """
SELECT webhook.cursor_position, stream.last_position, webhook.failures, webhook.failing_since, webhook.next_attempt_at,
       (SELECT sequence FROM events event
        WHERE event.organisation_id = $1 AND event.mode = $3 AND event.position > webhook.cursor_position
        ORDER BY position LIMIT 1) AS oldest_waiting
FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
WHERE webhook.organisation_id = $1 AND webhook.id = $2
"""


async def read_progress(connection: Connection, webhook: Webhook) -> Progress:
    row = await connection.fetchrow(READ_PROGRESS, webhook.organisation_id, webhook.id, webhook.mode)
    if row is None:
        raise LookupError(f"no stream for webhook {webhook.id}")
    return Progress(**row, parked=tuple(await list_parked(connection, webhook)))


# Never forward: that would skip events. The new version stops a request in flight from moving the cursor.
REWIND = """
UPDATE webhooks SET cursor_position = least(cursor_position, $3), version = version + 1, head_refusals = 0,
                    next_attempt_at = clock_timestamp(), due_at = clock_timestamp()
WHERE organisation_id = $1 AND id = $2
"""


async def rewind(tx: Connection, webhook: Webhook, before_position: int) -> None:
    """Move the cursor back to `before_position`, so that the events after it are sent again."""
    await tx.execute(REWIND, webhook.organisation_id, webhook.id, before_position)


RETRY_NOW = """
WITH parked AS (
    UPDATE webhook_parked SET next_attempt_at = clock_timestamp() WHERE organisation_id = $1 AND webhook_id = $2
)
UPDATE webhooks SET next_attempt_at = clock_timestamp(), due_at = clock_timestamp()
WHERE organisation_id = $1 AND id = $2
"""


async def retry_now(tx: Connection, webhook: Webhook) -> None:
    await tx.execute(RETRY_NOW, webhook.organisation_id, webhook.id)
