"""SQL of registrations."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from tonne.base.paging import Position
from tonne.base.scope import Mode, Scope
from tonne.db.pool import Connection
from tonne.webhooks.model import Lease, Parked, Progress, Webhook

# Registrations of one organisation and mode take turns, so that a count is still true when the row is written.
LOCK_REGISTRATIONS = "SELECT true FROM organisation_modes WHERE organisation_id = $1 AND mode = $2 FOR UPDATE"
COUNT_WEBHOOKS = "SELECT count(*) FROM webhooks WHERE organisation_id = $1 AND mode = $2 AND deleted_at IS NULL"


async def count_locked(tx: Connection, scope: Scope) -> int:
    await tx.execute(LOCK_REGISTRATIONS, scope.organisation_id, scope.mode)
    count: int = await tx.fetchval(COUNT_WEBHOOKS, scope.organisation_id, scope.mode)
    return count


# A new webhook starts behind the newest event: everything that commits from now on has a higher position.
INSERT_WEBHOOK = """
WITH stream AS (
    SELECT last_position FROM event_streams WHERE organisation_id = $1 AND mode = $2
), webhook AS (
    INSERT INTO webhooks (organisation_id, mode, id, url, account_ids, created_at, secret_box, secret_last_four,
                          cursor_position, next_attempt_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, last_position, clock_timestamp() FROM stream
)
INSERT INTO webhook_scopes (organisation_id, webhook_id, from_position, account_ids)
SELECT $1, $3, last_position + 1, $5 FROM stream
"""


async def insert_webhook(tx: Connection, webhook: Webhook, secret_box: bytes) -> None:
    await tx.execute(
        INSERT_WEBHOOK,
        webhook.organisation_id,
        webhook.mode,
        webhook.id,
        webhook.url,
        list(webhook.account_ids),
        webhook.created_at,
        secret_box,
        webhook.secret_last_four,
    )


FIND_WEBHOOK = """
SELECT organisation_id, mode, id, url, enabled, account_ids, created_at, secret_last_four FROM webhooks
WHERE organisation_id = $1 AND mode = $2 AND id = $3 AND deleted_at IS NULL
"""


async def find_webhook(connection: Connection, scope: Scope, webhook_id: str) -> Webhook | None:
    row = await connection.fetchrow(FIND_WEBHOOK, scope.organisation_id, scope.mode, webhook_id)
    return None if row is None else _webhook(row)


LOCK_WEBHOOK = """
SELECT organisation_id, mode, id, url, enabled, account_ids, created_at, secret_last_four FROM webhooks
WHERE organisation_id = $1 AND mode = $2 AND id = $3 AND deleted_at IS NULL FOR UPDATE
"""


async def lock_webhook(tx: Connection, scope: Scope, webhook_id: str) -> Webhook | None:
    row = await tx.fetchrow(LOCK_WEBHOOK, scope.organisation_id, scope.mode, webhook_id)
    return None if row is None else _webhook(row)


LIST_WEBHOOKS = """
SELECT organisation_id, mode, id, url, enabled, account_ids, created_at, secret_last_four FROM webhooks
WHERE organisation_id = $1 AND mode = $2 AND deleted_at IS NULL AND (created_at, id) < ($3, $4)
ORDER BY created_at DESC, id DESC LIMIT $5
"""


async def list_webhooks(connection: Connection, scope: Scope, start: Position, limit: int) -> list[Webhook]:
    rows = await connection.fetch(LIST_WEBHOOKS, scope.organisation_id, scope.mode, start.created_at, start.id, limit)
    return [_webhook(row) for row in rows]


# A changed registration is tried at once, and whatever is under way settles nothing.
UPDATE_WEBHOOK = """
UPDATE webhooks SET url = $3, enabled = $4, account_ids = $5, version = version + 1, head_refusals = 0,
                    next_attempt_at = clock_timestamp()
WHERE organisation_id = $1 AND id = $2 RETURNING cursor_position
"""
# Accounts that are no longer in scope wait no longer: what they waited with is skipped, on record.
DROP_PARKED_OUT_OF_SCOPE = """
WITH dropped AS (
    DELETE FROM webhook_parked WHERE organisation_id = $1 AND webhook_id = $2
    AND cardinality($3::text[]) > 0 AND account_id <> ALL ($3)
    RETURNING account_id, position
)
INSERT INTO webhook_skips (organisation_id, webhook_id, position, skipped_at, skipped_by)
SELECT $1, $2, event.position, clock_timestamp(), $6
FROM dropped JOIN events event
  ON event.organisation_id = $1 AND event.mode = $4 AND event.account_id = dropped.account_id
 AND event.position >= dropped.position AND event.position <= $5
ON CONFLICT (organisation_id, webhook_id, position) DO NOTHING
"""
# What was noted for positions that the cursor has not reached, before a rewind, holds no longer.
DROP_LATER_SCOPES = "DELETE FROM webhook_scopes WHERE organisation_id = $1 AND webhook_id = $2 AND from_position > $3"
RECORD_SCOPE = """
INSERT INTO webhook_scopes (organisation_id, webhook_id, from_position, account_ids) VALUES ($1, $2, $3, $4)
ON CONFLICT (organisation_id, webhook_id, from_position) DO UPDATE SET account_ids = $4
"""


async def update_webhook(tx: Connection, webhook: Webhook, *, by: str) -> None:
    account_ids = list(webhook.account_ids)
    cursor: int = await tx.fetchval(
        UPDATE_WEBHOOK, webhook.organisation_id, webhook.id, webhook.url, webhook.enabled, account_ids
    )
    await tx.execute(
        DROP_PARKED_OUT_OF_SCOPE, webhook.organisation_id, webhook.id, account_ids, webhook.mode, cursor, by
    )
    await tx.execute(DROP_LATER_SCOPES, webhook.organisation_id, webhook.id, cursor + 1)
    await tx.execute(RECORD_SCOPE, webhook.organisation_id, webhook.id, cursor + 1, account_ids)


DELETE_WEBHOOK = """
UPDATE webhooks SET deleted_at = clock_timestamp(), version = version + 1, enabled = false
WHERE organisation_id = $1 AND id = $2
"""


async def delete_webhook(tx: Connection, webhook: Webhook) -> None:
    await tx.execute(DELETE_WEBHOOK, webhook.organisation_id, webhook.id)


ROTATE = """
UPDATE webhooks SET secret_box = $3, secret_last_four = $4, old_secret_box = CASE WHEN $5 > 0 THEN secret_box END,
                    old_secret_until = CASE WHEN $5 > 0 THEN clock_timestamp() + $5 * interval '1 second' END
WHERE organisation_id = $1 AND id = $2
"""


async def rotate_secret(tx: Connection, webhook: Webhook, secret_box: bytes, overlap_seconds: int) -> None:
    await tx.execute(ROTATE, webhook.organisation_id, webhook.id, secret_box, webhook.secret_last_four, overlap_seconds)


FIND_SECRETS = """
SELECT secret_box, CASE WHEN old_secret_until > clock_timestamp() THEN old_secret_box END FROM webhooks
WHERE organisation_id = $1 AND id = $2
"""


async def find_secret_boxes(connection: Connection, webhook: Webhook) -> list[bytes]:
    row = await connection.fetchrow(FIND_SECRETS, webhook.organisation_id, webhook.id)
    return [] if row is None else [box for box in row if box is not None]


# To just before the given position; whatever is under way settles nothing. Never forward: that would be skipping.
REWIND = """
UPDATE webhooks SET cursor_position = least(cursor_position, $3), version = version + 1, head_refusals = 0,
                    next_attempt_at = clock_timestamp()
WHERE organisation_id = $1 AND id = $2
"""


async def rewind(tx: Connection, webhook: Webhook, before_position: int) -> None:
    await tx.execute(REWIND, webhook.organisation_id, webhook.id, before_position)


RETRY_NOW = """
WITH parked AS (
    UPDATE webhook_parked SET next_attempt_at = clock_timestamp() WHERE organisation_id = $1 AND webhook_id = $2
)
UPDATE webhooks SET next_attempt_at = clock_timestamp() WHERE organisation_id = $1 AND id = $2
"""


async def retry_now(tx: Connection, webhook: Webhook) -> None:
    await tx.execute(RETRY_NOW, webhook.organisation_id, webhook.id)


LIST_PARKED = """
SELECT parked.account_id, parked.position, event.id AS event_id, event.event_type, parked.refusals, parked.parked_at,
       parked.next_attempt_at
FROM webhook_parked parked JOIN events event
  ON event.organisation_id = $1 AND event.mode = $3 AND event.position = parked.position
WHERE parked.organisation_id = $1 AND parked.webhook_id = $2 ORDER BY parked.parked_at, parked.account_id
"""


async def list_parked(connection: Connection, webhook: Webhook) -> list[Parked]:
    rows = await connection.fetch(LIST_PARKED, webhook.organisation_id, webhook.id, webhook.mode)
    return [Parked(**row) for row in rows]


RECORD_SKIP = """
INSERT INTO webhook_skips (organisation_id, webhook_id, position, skipped_at, skipped_by) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (organisation_id, webhook_id, position) DO NOTHING
"""
CHANGE_VERSION = "UPDATE webhooks SET version = version + 1 WHERE organisation_id = $1 AND id = $2"


async def skip_parked(tx: Connection, webhook: Webhook, parked: Parked, *, by: str, at: datetime) -> None:
    """On record, for good. The account goes on with its next waiting event."""
    await tx.execute(RECORD_SKIP, webhook.organisation_id, webhook.id, parked.position, at, by)
    await advance_parked(tx, webhook, parked.account_id, parked.position)
    await tx.execute(CHANGE_VERSION, webhook.organisation_id, webhook.id)


# To the account's next waiting event, or out of the lane when the main lane has nothing more of it behind the cursor.
ADVANCE_PARKED = """
WITH next AS (
    SELECT min(event.position) AS position
    FROM webhooks webhook LEFT JOIN events event
      ON event.organisation_id = $1 AND event.mode = webhook.mode AND event.account_id = $3
     AND event.position > $4 AND event.position <= webhook.cursor_position
    WHERE webhook.organisation_id = $1 AND webhook.id = $2
), moved AS (
    UPDATE webhook_parked parked
    SET position = next.position, refusals = 0, alerts_sent = 0, parked_at = clock_timestamp(),
        next_attempt_at = clock_timestamp()
    FROM next
    WHERE parked.organisation_id = $1 AND parked.webhook_id = $2 AND parked.account_id = $3
      AND next.position IS NOT NULL
    RETURNING parked.account_id
)
DELETE FROM webhook_parked parked USING next
WHERE parked.organisation_id = $1 AND parked.webhook_id = $2 AND parked.account_id = $3 AND next.position IS NULL
"""


async def advance_parked(tx: Connection, webhook: Webhook | Lease, account_id: str, done_position: int) -> None:
    """With the webhook's row locked, so that the cursor stands still meanwhile."""
    await tx.execute(ADVANCE_PARKED, webhook.organisation_id, webhook.id, account_id, done_position)


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


LIST_ATTEMPTS = """
SELECT id, at, positions, status, error, acknowledged, duration_ms, answer,
       (SELECT array_agg(event.id ORDER BY event.position) FROM events event
        WHERE event.organisation_id = $1 AND event.mode = $3 AND event.position = ANY (attempt.positions)) AS event_ids
FROM webhook_attempts attempt
WHERE organisation_id = $1 AND webhook_id = $2 AND (at, id) < ($4, $5) ORDER BY at DESC, id DESC LIMIT $6
"""


async def list_attempts(
    connection: Connection, webhook: Webhook, start: Position, limit: int
) -> Sequence[asyncpg.Record]:
    return await connection.fetch(
        LIST_ATTEMPTS, webhook.organisation_id, webhook.id, webhook.mode, start.created_at, start.id, limit
    )


FIND_FOREIGN_ACCOUNTS = """
SELECT wanted.id FROM unnest($3::text[]) AS wanted (id)
WHERE NOT EXISTS (SELECT FROM accounts WHERE organisation_id = $1 AND mode = $2 AND accounts.id = wanted.id)
"""


async def find_foreign_accounts(connection: Connection, scope: Scope, account_ids: Sequence[str]) -> list[str]:
    rows = await connection.fetch(FIND_FOREIGN_ACCOUNTS, scope.organisation_id, scope.mode, list(account_ids))
    return [row["id"] for row in rows]


PRUNE_ATTEMPTS = """
DELETE FROM webhook_attempts WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM webhook_attempts WHERE at < now() - $1 * interval '1 day' LIMIT 5000))
"""


async def prune_attempts_any_account(connection: Connection, days: int) -> bool:
    """Forget the oldest attempts, a few thousand at a time; true when there may be more."""
    return await connection.execute(PRUNE_ATTEMPTS, days) == "DELETE 5000"


def _webhook(row: asyncpg.Record) -> Webhook:
    return Webhook(
        organisation_id=row["organisation_id"],
        mode=Mode(row["mode"]),
        id=row["id"],
        url=row["url"],
        enabled=row["enabled"],
        account_ids=tuple(row["account_ids"]),
        created_at=row["created_at"],
        secret_last_four=row["secret_last_four"],
    )
