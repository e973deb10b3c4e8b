"""SQL of recorded delivery attempts. Those of the main stream are recorded by the statements in settle.py."""

from collections.abc import Sequence
from datetime import timedelta

import asyncpg

from tonne.channels.webhooks.delivery.outcomes import Delivered, SendOutcome
from tonne.channels.webhooks.model import EventBatch, Lease, Webhook
from tonne.platform.db.database import Connection
from tonne.platform.values.context import made_at
from tonne.platform.values.paging import Position

# More than the clocks of processes and of the database differ.
_AROUND = timedelta(days=1)
COLUMNS = "organisation_id, webhook_id, id, at, positions, acknowledged, status, error, duration_ms, answer"

RECORD_ATTEMPT = f"""
WITH counted AS (
    UPDATE webhooks SET acknowledged_count = acknowledged_count + $5::boolean::integer,
                        refused_count = refused_count + (NOT $5)::integer
    WHERE organisation_id = $1 AND id = $2
)
INSERT INTO webhook_attempts ({COLUMNS})
VALUES ($1, $2, $3, date_trunc('milliseconds', clock_timestamp()), $4, $5, $6, $7, $8, $9)
"""  # noqa: S608 - only the constant above is inserted


async def record_attempt(
    tx: Connection, lease: Lease, batch: EventBatch, outcome: SendOutcome, attempt_id: str
) -> None:
    attempt = (attempt_id, list(batch.positions), isinstance(outcome, Delivered), *outcome.recorded)
    await tx.execute(RECORD_ATTEMPT, lease.organisation_id, lease.id, *attempt)


# A settlement is retried for no longer than a lease lasts, so its attempt is recent. now(), because with
# clock_timestamp() every partition would be searched.
IS_RECORDED = """
SELECT true FROM webhook_attempts
WHERE organisation_id = $1 AND webhook_id = $2 AND at > now() - interval '15 minutes' AND id = $3
"""


async def is_recorded(connection: Connection, lease: Lease, attempt_id: str) -> bool:
    return await connection.fetchval(IS_RECORDED, lease.organisation_id, lease.id, attempt_id) is True


LIST_ATTEMPTS = """
SELECT id, at, acknowledged, status, error, duration_ms, coalesce(answer, '') AS answer,
       ARRAY(SELECT event.id FROM events event
             WHERE event.organisation_id = $1 AND event.mode = $3 AND event.position = ANY (attempt.positions)
             ORDER BY event.position) AS event_ids
FROM webhook_attempts attempt
WHERE organisation_id = $1 AND webhook_id = $2 AND at <= $4 AND (at, id) < ($4, $5)
ORDER BY at DESC, id DESC LIMIT $6
"""


async def list_attempts(
    connection: Connection, webhook: Webhook, start: Position, limit: int
) -> Sequence[asyncpg.Record]:
    return await connection.fetch(
        LIST_ATTEMPTS, webhook.organisation_id, webhook.id, webhook.mode, start.created_at, start.id, limit
    )


FIND_ATTEMPT = """
SELECT id, at, acknowledged, status, error, duration_ms, coalesce(answer, '') AS answer, positions
FROM webhook_attempts
WHERE organisation_id = $1 AND webhook_id = $2 AND id = $3 AND at >= $4 AND at <= $5
"""


async def find_attempt(connection: Connection, webhook: Webhook, attempt_id: str) -> asyncpg.Record | None:
    """Ids contain about the time of the attempt: only one or two partitions are read."""
    made = made_at(attempt_id)
    if made is None:
        return None
    key = (webhook.organisation_id, webhook.id, attempt_id)
    return await connection.fetchrow(FIND_ATTEMPT, *key, made - _AROUND, made + _AROUND)
