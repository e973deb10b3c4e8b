"""SQL of parked accounts, whose events wait alone. Only workers call it."""

from datetime import timedelta

from tonne.base.ids import new_id
from tonne.db.pool import Connection
from tonne.webhooks.delivery_store import cut_to_size
from tonne.webhooks.model import Batch, Lease, Outcome, Parked

DUE_PARKED = """
SELECT parked.account_id, parked.position, event.id AS event_id, event.event_type, parked.refusals, parked.parked_at,
       parked.next_attempt_at
FROM webhook_parked parked JOIN events event
  ON event.organisation_id = $1 AND event.mode = $3 AND event.position = parked.position
WHERE parked.organisation_id = $1 AND parked.webhook_id = $2 AND parked.position <= $4
  AND parked.next_attempt_at <= clock_timestamp()
ORDER BY parked.next_attempt_at
"""


async def due_parked(connection: Connection, lease: Lease) -> list[Parked]:
    """Those whose event the main lane has passed: after a rewind it may come to it first."""
    rows = await connection.fetch(DUE_PARKED, lease.organisation_id, lease.id, lease.mode, lease.cursor_position)
    return [Parked(**row) for row in rows]


READ_PARKED = """
SELECT position, convert_to(payload, 'UTF8') AS payload FROM events
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND position >= $4 AND position <= $5
ORDER BY position LIMIT $6
"""


async def read_parked(connection: Connection, lease: Lease, account_id: str, position: int, limit: int) -> Batch:
    """The waiting events of one account, up to where the main lane stands. `reaches` is the last of them."""
    rows = await connection.fetch(
        READ_PARKED, lease.organisation_id, lease.mode, account_id, position, lease.cursor_position, limit
    )
    return cut_to_size([row[0] for row in rows], [row[1] for row in rows], limit, lease.cursor_position)


PARK = """
INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, parked_at, next_attempt_at)
VALUES ($1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp() + $6::interval)
ON CONFLICT (organisation_id, webhook_id, account_id) DO UPDATE SET position = least(webhook_parked.position, $4)
"""


async def park(tx: Connection, lease: Lease, account_id: str, position: int, pause: timedelta) -> None:
    await tx.execute(PARK, lease.organisation_id, lease.id, account_id, position, lease.head_refusals, pause)


REFUSE_PARKED = """
UPDATE webhook_parked SET refusals = refusals + 1, next_attempt_at = clock_timestamp() + $4::interval
WHERE organisation_id = $1 AND webhook_id = $2 AND account_id = $3
"""


async def refuse_parked(tx: Connection, lease: Lease, account_id: str, pause: timedelta) -> None:
    await tx.execute(REFUSE_PARKED, lease.organisation_id, lease.id, account_id, pause)


RECORD_PARKED_ATTEMPT = """
WITH counted AS (
    UPDATE webhooks SET acknowledged_count = acknowledged_count + $9::integer,
                        refused_count = refused_count + 1 - $9::integer
    WHERE organisation_id = $1 AND id = $2
)
INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, status, error, acknowledged, duration_ms,
                              answer)
VALUES ($1, $2, $3, date_trunc('milliseconds', clock_timestamp()), $4, $5, $6, $9 = 1, $7, $8)
"""


async def record_parked_attempt(tx: Connection, lease: Lease, batch: Batch, outcome: Outcome) -> None:
    await tx.execute(
        RECORD_PARKED_ATTEMPT,
        lease.organisation_id,
        lease.id,
        new_id("att"),
        list(batch.positions),
        outcome.status,
        outcome.error,
        outcome.duration_ms,
        outcome.answer,
        int(outcome.acknowledged),
    )
