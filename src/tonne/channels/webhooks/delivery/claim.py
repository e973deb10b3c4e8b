"""Leases on webhooks: a worker claims a webhook, renews the lease between requests, and releases it.

Times are the database's: workers on several machines compare them.
"""

import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import asyncpg

from tonne.channels.webhooks.delivery.batch_store import MAX_EVENTS_BYTES, batch_of
from tonne.channels.webhooks.model import EventBatch, Lease, types_of
from tonne.platform.db.database import Connection
from tonne.platform.events.notification import Stream
from tonne.platform.events.payload import joined_heads_of
from tonne.platform.values.context import Mode

# With so few events, a claim reads them at once: a statement of their own would cost more.
READ_WITH_CLAIM = 10
_NOT_COLUMNS = {"expires_at", "first_batch", "is_released", "keeper", "siblings", "read_at"}
_FIELD_NAMES = tuple(name for name in Lease.__struct_fields__ if name not in _NOT_COLUMNS)
LEASE_FIELDS = ", ".join(_FIELD_NAMES)
_MODES = {mode.value: mode for mode in Mode}
# The same fields in the same order, for a statement in which `webhook` is the row of the webhook.
LEASE_COLUMNS = """
    webhook.organisation_id, webhook.mode, webhook.id, webhook.url, webhook.account_ids, webhook.event_types,
    webhook.secret_box AS sealed_secret,
    ARRAY[CASE WHEN webhook.old_secret_until > clock_timestamp() THEN webhook.old_secret_box END,
          CASE WHEN webhook.older_secret_until > clock_timestamp() THEN webhook.older_secret_box END]
        AS old_sealed_secrets,
    webhook.standard_webhooks,
    webhook.cursor_position, webhook.batch_limit, webhook.failures, webhook.head_refusals,
    webhook.probe_after, webhook.accepted_probe, webhook.lease_token AS token, webhook.version,
    webhook.next_attempt_at <= clock_timestamp() AS main_due,
    (SELECT stream.last_position FROM event_streams stream
     WHERE stream.organisation_id = webhook.organisation_id AND stream.mode = webhook.mode) AS last_position,
    EXISTS (SELECT FROM webhook_parked parked WHERE parked.organisation_id = webhook.organisation_id
                                                AND parked.webhook_id = webhook.id) AS has_parked
"""

# The lease of another worker, unless it has ended, or that worker keeps it while nothing waits and its session is gone.
# $4 and $5 are the leases that this worker keeps.
_IS_FREE = """(webhook.lease_until IS NULL OR webhook.lease_until < clock_timestamp()
           OR webhook.lease_keeper IS NOT NULL
              AND (EXISTS (SELECT FROM unnest($4::text[], $5::bigint[]) AS kept (id, token)
                           WHERE kept.id = webhook.id AND kept.token = webhook.lease_token)
                   OR NOT EXISTS (SELECT FROM pg_stat_get_activity(webhook.lease_keeper))))"""

# Webhooks that may be due: something waits, the stream has changed recently, or a parked account is due. Each is found
# by an index, so that idle webhooks cost nothing. now(), because an index cannot be searched for clock_timestamp().
_CANDIDATES = """candidates AS MATERIALIZED (
    SELECT id FROM webhooks WHERE due_at <= now() AND enabled AND deleted_at IS NULL
    UNION
    SELECT webhook.id FROM event_streams stream JOIN webhooks webhook USING (organisation_id, mode)
    WHERE stream.last_sequence > now() - interval '1 minute' AND webhook.enabled AND webhook.deleted_at IS NULL
      AND webhook.cursor_position < stream.last_position
    UNION
    SELECT webhook_id FROM webhook_parked WHERE next_attempt_at <= now() AND NOT suspended
)"""
# All webhooks in use, including those that the indexes miss: the notification was lost, and the clock of the process
# that appended the events is more than a minute slow.
_ALL = "candidates AS MATERIALIZED (SELECT id FROM webhooks WHERE enabled AND deleted_at IS NULL)"
_DUE = f"""FROM candidates candidate JOIN webhooks webhook USING (id)
    JOIN event_streams stream USING (organisation_id, mode)
    CROSS JOIN LATERAL (SELECT webhook.cursor_position < stream.last_position
                               AND webhook.next_attempt_at <= clock_timestamp() AS due) main
    WHERE webhook.enabled AND webhook.deleted_at IS NULL
      AND {_IS_FREE}
      AND (main.due OR EXISTS (SELECT FROM webhook_parked parked
                               WHERE parked.organisation_id = webhook.organisation_id AND parked.webhook_id = webhook.id
                                 AND parked.position <= webhook.cursor_position
                                 AND parked.next_attempt_at <= clock_timestamp()))
"""  # noqa: S608 - only the constant above is inserted
# While it is leased, a webhook has a due time no later than the end of the lease: after a crash of the worker, the
# index finds it. A due time ahead stays as it is, so that most claims change no index entry.
_SET_LEASE = """lease_token = webhook.lease_token + 1, lease_until = clock_timestamp() + $3::interval,
    lease_keeper = NULL, last_attempt_at = clock_timestamp(),
    due_at = CASE WHEN webhook.due_at > clock_timestamp() THEN least(webhook.due_at, clock_timestamp() + $3::interval)
                  ELSE clock_timestamp() + $3::interval END"""
# The webhook that was claimed longest ago comes first, so that no organisation starves another. Failing webhooks, and
# those due only for a parked account, are limited: their receivers may hang, and the others would wait for a slot.
_CLAIM = f"""failing AS (
    SELECT webhook.id {_DUE} AND (webhook.failures > 0 OR NOT main.due)
    ORDER BY webhook.last_attempt_at NULLS FIRST LIMIT $2 FOR UPDATE OF webhook SKIP LOCKED
), healthy AS (
    SELECT webhook.id {_DUE} AND webhook.failures = 0 AND main.due
    ORDER BY webhook.last_attempt_at NULLS FIRST LIMIT $1 FOR UPDATE OF webhook SKIP LOCKED
), due AS (
    SELECT id FROM failing UNION ALL SELECT id FROM healthy
)
UPDATE webhooks webhook SET {_SET_LEASE}
FROM due WHERE webhook.id = due.id
RETURNING {LEASE_COLUMNS}
"""  # noqa: S608 - only the constants above are inserted
CLAIM = f"WITH {_CANDIDATES}, {_CLAIM}"
CLAIM_BY_SCAN = f"WITH {_ALL}, {_CLAIM}"


async def claim_webhooks(
    connection: Connection,
    healthy: int,
    failing: int,
    lease_s: float,
    *,
    kept: Sequence[Lease] = (),
    full_scan: bool = True,
) -> list[Lease]:
    """Claim due webhooks: at most `healthy` without failures and `failing` others. `full_scan` reads all webhooks."""
    expires_at = time.monotonic() + lease_s
    statement = CLAIM_BY_SCAN if full_scan else CLAIM
    rows = await connection.fetch(statement, healthy, failing, timedelta(seconds=lease_s), *_keys(kept))
    return [lease_from(row, expires_at) for row in rows]


# New events make only webhooks due that are not failing: the others wait for the end of their back-off.
CLAIM_IN_STREAMS = f"""
WITH due AS MATERIALIZED (
    SELECT webhook.id
    FROM unnest($1::text[], $2::mode[]) AS named (organisation_id, mode)
    JOIN event_streams stream USING (organisation_id, mode) JOIN webhooks webhook USING (organisation_id, mode)
    WHERE webhook.enabled AND webhook.deleted_at IS NULL AND webhook.failures = 0
      AND webhook.cursor_position < stream.last_position AND webhook.next_attempt_at <= clock_timestamp()
      AND {_IS_FREE}
    ORDER BY webhook.last_attempt_at NULLS FIRST LIMIT $6 FOR UPDATE OF webhook SKIP LOCKED
), claimed AS (
    UPDATE webhooks webhook SET {_SET_LEASE}
    FROM due WHERE webhook.id = due.id
    RETURNING {LEASE_COLUMNS}
)
SELECT {LEASE_FIELDS}, first.count, first.heads, first.documents, first.filtered, first.oldest_at,
       (SELECT count(*) FROM webhooks other
        WHERE other.organisation_id = claimed.organisation_id AND other.mode = claimed.mode
          AND other.enabled AND other.deleted_at IS NULL) AS siblings
FROM claimed CROSS JOIN LATERAL (SELECT {types_of("claimed")} AS types) delivered LEFT JOIN LATERAL (
    SELECT count(*) AS count,
           {joined_heads_of("event")} FILTER (WHERE event.event_type = ANY (delivered.types)) AS heads,
           array_agg(event.document ORDER BY event.position) FILTER (WHERE event.event_type = ANY (delivered.types))
               AS documents,
           array_agg(event.position) FILTER (WHERE event.event_type <> ALL (delivered.types)) AS filtered,
           extract(epoch FROM min(event.sequence))::float8 AS oldest_at
    FROM events event
    WHERE event.organisation_id = claimed.organisation_id AND event.mode = claimed.mode
      AND event.position > claimed.cursor_position AND event.position <= claimed.last_position
      AND event.sequence >= now() - interval '2 days'
) first ON claimed.last_position - claimed.cursor_position <= least($7, claimed.batch_limit)
"""  # noqa: S608 - only the constants above are inserted


async def claim_in_streams(
    connection: Connection, streams: Collection[Stream], limit: int, lease_s: float, *, kept: Sequence[Lease] = ()
) -> list[Lease]:
    """Claim webhooks of these streams that are due for new events, with the events if there are only a few."""
    expires_at = time.monotonic() + lease_s
    organisations, modes = [stream.organisation_id for stream in streams], [stream.mode for stream in streams]
    rows = await connection.fetch(
        CLAIM_IN_STREAMS, organisations, modes, timedelta(seconds=lease_s), *_keys(kept), limit, READ_WITH_CLAIM
    )
    return [lease_from(row, expires_at, first_batch=_first_batch(row), siblings=row["siblings"]) for row in rows]


def _first_batch(row: asyncpg.Record) -> EventBatch | None:
    """None if there are too many, or if some are not recent."""
    after, count = row["cursor_position"], row["count"]
    if not count or after + count != row["last_position"]:
        return None
    batch = batch_of(row, after)
    return None if len(batch.events) > MAX_EVENTS_BYTES else batch


# A claim sets the due time to the end of its lease. Without waiting events it is not needed: new events are found by
# their stream.
CLEAR_DUE = """
UPDATE webhooks SET due_at = NULL
WHERE id IN (SELECT webhook.id FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
             WHERE webhook.due_at <= now() AND webhook.enabled AND webhook.deleted_at IS NULL
               AND webhook.lease_until IS NULL AND webhook.cursor_position >= stream.last_position
             LIMIT 1000 FOR UPDATE OF webhook SKIP LOCKED)
"""


async def clear_due(tx: Connection) -> None:
    """Remove idle webhooks from the index of those that may be due."""
    await tx.execute(CLEAR_DUE)


RENEW = f"""
UPDATE webhooks webhook SET lease_until = clock_timestamp() + $4::interval, last_attempt_at = clock_timestamp()
WHERE organisation_id = $1 AND id = $2 AND lease_token = $3 AND enabled AND deleted_at IS NULL
RETURNING {LEASE_COLUMNS}
"""  # noqa: S608 - only the constant above is inserted


async def renew(connection: Connection, lease: Lease, lease_s: float) -> Lease | None:
    """The renewed lease with the current registration; None when the lease is lost or the webhook is not in use."""
    expires_at = time.monotonic() + lease_s
    row = await connection.fetchrow(RENEW, lease.organisation_id, lease.id, lease.token, timedelta(seconds=lease_s))
    return None if row is None else lease_from(row, expires_at)


# Locks the webhook's row: the rest of the transaction runs under a valid lease on an unchanged registration.
LOCK_LEASE = """
SELECT true FROM webhooks WHERE organisation_id = $1 AND id = $2 AND lease_token = $3 AND version = $4 FOR UPDATE
"""


async def lock_lease(tx: Connection, lease: Lease) -> bool:
    """False when the lease is lost or the registration has changed."""
    return await tx.fetchval(LOCK_LEASE, *lease.fence) is True


RELEASE = """
UPDATE webhooks
SET lease_until = NULL, lease_keeper = NULL,
    due_at = CASE WHEN cursor_position < (
                       SELECT stream.last_position FROM event_streams stream
                       WHERE stream.organisation_id = webhooks.organisation_id AND stream.mode = webhooks.mode
                   ) THEN next_attempt_at ELSE due_at END
WHERE organisation_id = $1 AND id = $2 AND lease_token = $3
RETURNING enabled AND deleted_at IS NULL AND (
    coalesce(due_at <= clock_timestamp(), false)
      OR EXISTS (SELECT FROM webhook_parked parked
                 WHERE parked.organisation_id = webhooks.organisation_id AND parked.webhook_id = webhooks.id
                   AND parked.position <= webhooks.cursor_position AND parked.next_attempt_at <= clock_timestamp()))
"""


async def release(connection: Connection, lease: Lease) -> bool:
    """True when more events are due now."""
    return await connection.fetchval(RELEASE, lease.organisation_id, lease.id, lease.token) is True


GIVE_BACK = """
UPDATE webhooks SET lease_until = NULL, lease_keeper = NULL
FROM unnest($1::text[], $2::bigint[]) AS kept (id, token)
WHERE webhooks.id = kept.id AND webhooks.lease_token = kept.token
"""


async def give_back(connection: Connection, leases: Sequence[Lease]) -> None:
    """End leases that were kept while nothing waited."""
    await connection.execute(GIVE_BACK, *_keys(leases))


def _keys(leases: Sequence[Lease]) -> tuple[list[str], list[int]]:
    return [lease.id for lease in leases], [lease.token for lease in leases]


def lease_from(row: asyncpg.Record, expires_at: float, **options: Any) -> Lease:
    values = dict(zip(_FIELD_NAMES, row.values(), strict=False))
    values["mode"] = _MODES[values["mode"]]
    values["account_ids"], values["event_types"] = tuple(values["account_ids"]), tuple(values["event_types"])
    return Lease(**values, expires_at=expires_at, **options)
