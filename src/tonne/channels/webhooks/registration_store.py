"""SQL of registrations: address, scope and secrets of a webhook."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from tonne.channels.webhooks.delivery.parked_store import list_parked
from tonne.channels.webhooks.errors import WebhookNotFound
from tonne.channels.webhooks.model import DisabledReason, Progress, Webhook
from tonne.platform.db.database import Connection, parameters_of
from tonne.platform.values.context import Mode, Scope
from tonne.selling.accounts.store import lock_organisation_mode

_COLUMNS = """organisation_id, mode, id, url, enabled, account_ids, created_at, secret_last_four, event_types, \
disable_on_gone, standard_webhooks, disabled_reason"""

COUNT_WEBHOOKS = "SELECT count(*) FROM webhooks WHERE organisation_id = $1 AND mode = $2 AND deleted_at IS NULL"


async def count_locked(tx: Connection, scope: Scope) -> int:
    """Serialises registrations of one organisation and mode: two at once could otherwise exceed the limit."""
    await lock_organisation_mode(tx, scope)
    count: int = await tx.fetchval(COUNT_WEBHOOKS, scope.organisation_id, scope.mode)
    return count


# The cursor starts at the newest event: everything that commits from now on has a higher position.
INSERT_WEBHOOK = """
WITH stream AS (
    SELECT last_position FROM event_streams WHERE organisation_id = $1 AND mode = $2
), webhook AS (
    INSERT INTO webhooks (organisation_id, mode, id, url, account_ids, created_at, secret_box, secret_last_four,
                          event_types, disable_on_gone, standard_webhooks, cursor_position, next_attempt_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, last_position, clock_timestamp() FROM stream
)
INSERT INTO webhook_scopes (organisation_id, webhook_id, from_position, account_ids, event_types)
SELECT $1, $3, last_position + 1, $5, $9 FROM stream
"""


async def insert_webhook(tx: Connection, webhook: Webhook, sealed_secret: bytes) -> None:
    first = parameters_of(webhook, "organisation_id, mode, id, url, account_ids, created_at")
    last = parameters_of(webhook, "secret_last_four, event_types, disable_on_gone, standard_webhooks")
    await tx.execute(INSERT_WEBHOOK, *first, sealed_secret, *last)


FIND_WEBHOOK = f"""
SELECT {_COLUMNS} FROM webhooks WHERE organisation_id = $1 AND mode = $2 AND id = $3 AND deleted_at IS NULL
"""  # noqa: S608 - only the constant above is inserted


async def find_webhook(connection: Connection, scope: Scope, webhook_id: str) -> Webhook:
    """Raises `WebhookNotFound`."""
    return _webhook(await connection.fetchrow(FIND_WEBHOOK, scope.organisation_id, scope.mode, webhook_id))


LOCK_WEBHOOK = f"{FIND_WEBHOOK} FOR UPDATE"


async def lock_webhook(tx: Connection, scope: Scope, webhook_id: str) -> Webhook:
    """Raises `WebhookNotFound`. Nothing else changes the webhook until the transaction ends."""
    return _webhook(await tx.fetchrow(LOCK_WEBHOOK, scope.organisation_id, scope.mode, webhook_id))


LIST_WEBHOOKS = f"""
SELECT {_COLUMNS} FROM webhooks
WHERE organisation_id = $1 AND mode = $2 AND deleted_at IS NULL
  AND (cardinality($3::text[]) = 0 OR account_ids = '{{}}' OR account_ids && $3)
ORDER BY created_at DESC, id DESC
"""  # noqa: S608 - only the constant above is inserted


async def list_webhooks(connection: Connection, scope: Scope, account_ids: Sequence[str] = ()) -> list[Webhook]:
    """The webhooks that get events of one of these accounts; without accounts, all webhooks, newest first."""
    rows = await connection.fetch(LIST_WEBHOOKS, scope.organisation_id, scope.mode, account_ids)
    return [_webhook(row) for row in rows]


# The new version stops a request in flight from moving the cursor. The webhook is due at once.
UPDATE_WEBHOOK = """
WITH parked AS (UPDATE webhook_parked SET suspended = NOT $4 WHERE organisation_id = $1 AND webhook_id = $2)
UPDATE webhooks SET url = $3, enabled = $4, account_ids = $5, event_types = $6, disable_on_gone = $7,
                    standard_webhooks = $8, disabled_reason = $9, version = version + 1, head_refusals = 0,
                    next_attempt_at = clock_timestamp(), due_at = clock_timestamp()
WHERE organisation_id = $1 AND id = $2 RETURNING cursor_position
"""
# Scopes that were recorded before a rewind, for positions that the cursor has not reached again.
DROP_LATER_SCOPES = "DELETE FROM webhook_scopes WHERE organisation_id = $1 AND webhook_id = $2 AND from_position > $3"
RECORD_SCOPE = """
INSERT INTO webhook_scopes (organisation_id, webhook_id, from_position, account_ids, event_types)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (organisation_id, webhook_id, from_position) DO UPDATE SET account_ids = $4, event_types = $5
"""


async def update_webhook(tx: Connection, webhook: Webhook) -> int:
    """Returns the position of the cursor, after which the new scope applies."""
    key = (webhook.organisation_id, webhook.id)
    choices = "event_types, disable_on_gone, standard_webhooks"
    changed = parameters_of(webhook, f"url, enabled, account_ids, {choices}, disabled_reason")
    cursor: int = await tx.fetchval(UPDATE_WEBHOOK, *key, *changed)
    await tx.execute(DROP_LATER_SCOPES, *key, cursor + 1)
    await tx.execute(RECORD_SCOPE, *key, cursor + 1, webhook.account_ids, webhook.event_types)
    return cursor


DELETE_WEBHOOK = """
WITH parked AS (UPDATE webhook_parked SET suspended = true WHERE organisation_id = $1 AND webhook_id = $2)
UPDATE webhooks SET deleted_at = clock_timestamp(), version = version + 1, enabled = false
WHERE organisation_id = $1 AND id = $2
"""


async def delete_webhook(tx: Connection, webhook: Webhook) -> None:
    await tx.execute(DELETE_WEBHOOK, webhook.organisation_id, webhook.id)


LIST_NAMED_TYPES = """
SELECT DISTINCT unnest(event_types) AS type FROM webhooks
WHERE organisation_id = $1 AND mode = $2 AND deleted_at IS NULL
"""


async def list_named_types(tx: Connection, webhook: Webhook) -> list[str]:
    """Of all webhooks of the same organisation and mode. Disabled ones count: they get the events later."""
    return [row["type"] for row in await tx.fetch(LIST_NAMED_TYPES, webhook.organisation_id, webhook.mode)]


FIND_PROMISE = """
SELECT least(old_secret_until, older_secret_until) FROM webhooks
WHERE organisation_id = $1 AND id = $2
  AND old_secret_until > clock_timestamp() AND older_secret_until > clock_timestamp()
"""


async def find_promised_overlap(tx: Connection, webhook: Webhook) -> datetime | None:
    """Until when another rotation with an overlap would need a fourth signature. None if it is possible now."""
    until: datetime | None = await tx.fetchval(FIND_PROMISE, webhook.organisation_id, webhook.id)
    return until


# Of the two replaced secrets, the one that still signs stays beside the secret that is replaced now.
ROTATE = """
WITH kept AS (
    SELECT secret.box, secret.until FROM webhooks,
           LATERAL (VALUES (old_secret_box, old_secret_until), (older_secret_box, older_secret_until))
               AS secret (box, until)
    WHERE organisation_id = $1 AND id = $2 AND secret.until > clock_timestamp() AND $5 > 0
    ORDER BY secret.until DESC LIMIT 1
)
UPDATE webhooks SET secret_box = $3, secret_last_four = $4, old_secret_box = CASE WHEN $5 > 0 THEN secret_box END,
                    old_secret_until = CASE WHEN $5 > 0 THEN clock_timestamp() + $5 * interval '1 second' END,
                    older_secret_box = (SELECT box FROM kept), older_secret_until = (SELECT until FROM kept)
WHERE organisation_id = $1 AND id = $2
"""


async def rotate_secret(tx: Connection, webhook: Webhook, sealed_secret: bytes, overlap_s: int) -> None:
    """Without an overlap, no replaced secret signs any more."""
    await tx.execute(ROTATE, webhook.organisation_id, webhook.id, sealed_secret, webhook.secret_last_four, overlap_s)


FIND_SECRETS = """
SELECT secret_box, ARRAY[CASE WHEN old_secret_until > clock_timestamp() THEN old_secret_box END,
                         CASE WHEN older_secret_until > clock_timestamp() THEN older_secret_box END]
FROM webhooks WHERE organisation_id = $1 AND id = $2
"""


async def find_sealed_secrets(connection: Connection, webhook: Webhook) -> tuple[bytes, Sequence[bytes | None]]:
    """The current secret and the replaced ones, each None when it does not sign. Raises `WebhookNotFound`."""
    row = await connection.fetchrow(FIND_SECRETS, webhook.organisation_id, webhook.id)
    if row is None:
        raise WebhookNotFound
    return row[0], row[1]


FIND_FOREIGN_ACCOUNTS = """
SELECT given.id FROM unnest($3::text[]) AS given (id)
WHERE NOT EXISTS (SELECT FROM accounts WHERE organisation_id = $1 AND mode = $2 AND accounts.id = given.id)
"""


async def find_foreign_accounts(connection: Connection, scope: Scope, account_ids: Sequence[str]) -> list[str]:
    """Those of `account_ids` that are not accounts of this organisation and mode."""
    rows = await connection.fetch(FIND_FOREIGN_ACCOUNTS, scope.organisation_id, scope.mode, list(account_ids))
    return [row["id"] for row in rows]


def _webhook(row: asyncpg.Record | None) -> Webhook:
    if row is None:
        raise WebhookNotFound
    reason = row["disabled_reason"]
    typed = {
        "mode": Mode(row["mode"]),
        "account_ids": tuple(row["account_ids"]),
        "event_types": tuple(row["event_types"]),
        "disabled_reason": None if reason is None else DisabledReason(reason),
    }
    return Webhook(**{**row, **typed})


# SQL of a webhook's progress through its stream, as the API reads and changes it.

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
