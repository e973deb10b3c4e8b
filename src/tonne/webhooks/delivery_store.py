"""SQL of delivery: claim a webhook, read what is next, settle. Only workers call it."""

import itertools
import time
from collections.abc import Sequence
from datetime import timedelta

import asyncpg

from tonne.base.ids import new_id
from tonne.base.scope import Mode
from tonne.db.pool import Connection
from tonne.webhooks.model import Batch, Lease, Outcome
from tonne.webhooks.schedule import MAX_BATCH_BYTES

MAX_EVENTS_BYTES = MAX_BATCH_BYTES - len(Batch([], b"", 0).body)

# So many positions are looked through at once for events in scope: an account that is filtered out costs little, and
# a single statement never reads the whole log.
WINDOW = 1000

# Whoever waits longest since its last turn comes first, so that no organisation starves another. Times are the
# database's, since several machines share them.
CLAIM = """
WITH due AS (
    SELECT webhook.organisation_id, webhook.mode, webhook.id, stream.last_position
    FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
    WHERE webhook.enabled AND webhook.deleted_at IS NULL
      AND (webhook.lease_until IS NULL OR webhook.lease_until < clock_timestamp())
      AND (webhook.cursor_position < stream.last_position AND webhook.next_attempt_at <= clock_timestamp()
           OR EXISTS (SELECT FROM webhook_parked parked
                      WHERE parked.organisation_id = webhook.organisation_id AND parked.webhook_id = webhook.id
                        AND parked.position <= webhook.cursor_position
                        AND parked.next_attempt_at <= clock_timestamp()))
    ORDER BY webhook.last_attempt_at NULLS FIRST LIMIT $1 FOR UPDATE OF webhook SKIP LOCKED
)
UPDATE webhooks webhook SET lease_token = webhook.lease_token + 1, lease_until = clock_timestamp() + $2::interval,
                            last_attempt_at = clock_timestamp()
FROM due WHERE (webhook.organisation_id, webhook.mode, webhook.id) = (due.organisation_id, due.mode, due.id)
RETURNING webhook.organisation_id, webhook.mode, webhook.id, webhook.url, webhook.account_ids, webhook.secret_box,
          CASE WHEN webhook.old_secret_until > clock_timestamp() THEN webhook.old_secret_box END AS old_secret_box,
          webhook.cursor_position, webhook.batch_limit, webhook.failures, webhook.head_refusals,
          webhook.lease_token AS token, webhook.version, webhook.next_attempt_at <= clock_timestamp() AS main_due,
          due.last_position,
          EXISTS (SELECT FROM webhook_parked parked WHERE parked.organisation_id = webhook.organisation_id
                                                      AND parked.webhook_id = webhook.id) AS has_parked
"""


async def claim_any_account(connection: Connection, limit: int, lease_s: float) -> list[Lease]:
    expires_at = time.monotonic() + lease_s
    rows = await connection.fetch(CLAIM, limit, timedelta(seconds=lease_s))
    return [_lease(row, expires_at) for row in rows]


# Holds on to a webhook for another delivery, and sees what changed meanwhile.
RENEW = """
UPDATE webhooks SET lease_until = clock_timestamp() + $4::interval, last_attempt_at = clock_timestamp()
WHERE organisation_id = $1 AND id = $2 AND lease_token = $3 AND enabled AND deleted_at IS NULL
RETURNING organisation_id, mode, id, url, account_ids, secret_box,
          CASE WHEN old_secret_until > clock_timestamp() THEN old_secret_box END AS old_secret_box, cursor_position,
          batch_limit, failures, head_refusals, lease_token AS token, version,
          next_attempt_at <= clock_timestamp() AS main_due,
          (SELECT stream.last_position FROM event_streams stream
           WHERE stream.organisation_id = webhooks.organisation_id AND stream.mode = webhooks.mode) AS last_position,
          EXISTS (SELECT FROM webhook_parked parked WHERE parked.organisation_id = webhooks.organisation_id
                                                      AND parked.webhook_id = webhooks.id) AS has_parked
"""


async def renew(connection: Connection, lease: Lease, lease_s: float) -> Lease | None:
    """The lease anew; None when it is lost or the webhook is out of use."""
    expires_at = time.monotonic() + lease_s
    row = await connection.fetchrow(RENEW, lease.organisation_id, lease.id, lease.token, timedelta(seconds=lease_s))
    return None if row is None else _lease(row, expires_at)


RELEASE = """
UPDATE webhooks SET lease_until = NULL WHERE organisation_id = $1 AND id = $2 AND lease_token = $3
RETURNING next_attempt_at <= clock_timestamp()
      AND cursor_position < (SELECT stream.last_position FROM event_streams stream
                             WHERE stream.organisation_id = webhooks.organisation_id AND stream.mode = webhooks.mode)
"""


async def release(connection: Connection, lease: Lease) -> bool:
    """Whether more waits, and could go out now."""
    more = await connection.fetchval(RELEASE, lease.organisation_id, lease.id, lease.token)
    return more is True


# Positions have no gaps: the next events are those with the next positions. A hundred of them as one value cost a
# fraction of what a hundred rows do.
READ_RUN = """
SELECT count(*), convert_to(string_agg(payload, ',' ORDER BY position), 'UTF8') AS events
FROM (SELECT position, payload FROM events WHERE organisation_id = $1 AND mode = $2 AND position > $3
      ORDER BY position LIMIT $4) AS run
"""

READ_EVENTS = """
SELECT position, convert_to(payload, 'UTF8') AS payload FROM events
WHERE organisation_id = $1 AND mode = $2 AND position > $3 ORDER BY position LIMIT $4
"""


async def read_run(connection: Connection, lease: Lease, after: int, limit: int) -> Batch | None:
    """The next events of the stream, for a webhook that gets all of them; None when there is none."""
    row = await connection.fetchrow(READ_RUN, lease.organisation_id, lease.mode, after, limit)
    if row is None or row["events"] is None:
        return None
    count, events = row
    if len(events) > MAX_EVENTS_BYTES:
        # Rare, and only the sizes of the single events tell how many fit.
        rows = await connection.fetch(READ_EVENTS, lease.organisation_id, lease.mode, after, count)
        return cut_to_size([row["position"] for row in rows], [row["payload"] for row in rows], count, after + count)
    return Batch(range(after + 1, after + 1 + count), events, after + count)


READ_MAIN = """
SELECT bounds.reaches, event.position, event.payload
FROM (SELECT least($3::bigint + $6::bigint, last_position) AS reaches FROM event_streams
      WHERE organisation_id = $1 AND mode = $2) bounds
LEFT JOIN LATERAL (
    SELECT position, convert_to(payload, 'UTF8') AS payload FROM events
    WHERE organisation_id = $1 AND mode = $2 AND position > $3 AND position <= bounds.reaches
      AND (cardinality($4::text[]) = 0 OR account_id = ANY ($4))
      AND NOT EXISTS (SELECT FROM webhook_parked parked
                      WHERE parked.organisation_id = $1 AND parked.webhook_id = $5
                        AND parked.account_id = events.account_id AND parked.position <= events.position)
    ORDER BY position LIMIT $7
) event ON true
"""


async def read_main(connection: Connection, lease: Lease, limit: int) -> Batch:
    """The next events in the main lane. Without any in the window, `reaches` says how far there is nothing."""
    rows = await connection.fetch(
        READ_MAIN,
        lease.organisation_id,
        lease.mode,
        lease.cursor_position,
        list(lease.account_ids),
        lease.id,
        WINDOW,
        limit,
    )
    reaches: int = rows[0]["reaches"]
    if rows[0]["position"] is None:
        return Batch([], b"", reaches)
    return cut_to_size([row[1] for row in rows], [row[2] for row in rows], limit, reaches)


FIND_ACCOUNT = "SELECT account_id FROM events WHERE organisation_id = $1 AND mode = $2 AND position = $3"


async def account_at(connection: Connection, lease: Lease, position: int) -> str:
    account_id: str = await connection.fetchval(FIND_ACCOUNT, lease.organisation_id, lease.mode, position)
    return account_id


# The next event of every other account in the main lane, however far behind the first one's backlog it stands.
READ_PROBES = """
SELECT event.position, event.payload
FROM accounts account
JOIN LATERAL (SELECT position, convert_to(payload, 'UTF8') AS payload FROM events
              WHERE organisation_id = $1 AND mode = $2 AND account_id = account.id AND position > $3
              ORDER BY position LIMIT 1) event ON true
WHERE account.organisation_id = $1 AND account.mode = $2 AND account.id <> $6
  AND (cardinality($4::text[]) = 0 OR account.id = ANY ($4))
  AND NOT EXISTS (SELECT FROM webhook_parked parked
                  WHERE parked.organisation_id = $1 AND parked.webhook_id = $5 AND parked.account_id = account.id)
ORDER BY event.position LIMIT $7
"""


async def read_probes(connection: Connection, lease: Lease, without_account: str, limit: int) -> list[Batch]:
    """Each alone in its batch, which reaches to itself."""
    rows = await connection.fetch(
        READ_PROBES,
        lease.organisation_id,
        lease.mode,
        lease.cursor_position,
        list(lease.account_ids),
        lease.id,
        without_account,
        limit,
    )
    return [Batch([row["position"]], row["payload"], row["position"]) for row in rows]


# Cursor and attempt together, or neither. A worker whose lease another one has taken settles nothing; one whose
# webhook was changed meanwhile records the attempt, and leaves the cursor where the change put it. The lease goes on.
# Nobody waits for the disk: a database that dies within the next moment forgets the settling as a whole, and the events
# go out once more. The lease it then remembers is older by that moment, and far longer than a request.
SETTLE_ACKNOWLEDGED = """
WITH settled AS (
    UPDATE webhooks
    SET cursor_position = CASE WHEN version = $4 THEN greatest(cursor_position, $5) ELSE cursor_position END,
        batch_limit = least(100, batch_limit * 2), failures = 0, head_refusals = 0, failing_since = NULL,
        alerts_sent = 0, next_attempt_at = clock_timestamp(), acknowledged_count = acknowledged_count + 1,
        lease_until = clock_timestamp() + $11::interval, last_attempt_at = clock_timestamp()
    WHERE organisation_id = $1 AND id = $2 AND lease_token = $3
    RETURNING organisation_id, mode, id, url, account_ids, secret_box,
              CASE WHEN old_secret_until > clock_timestamp() THEN old_secret_box END AS old_secret_box,
              cursor_position, batch_limit, failures, head_refusals, lease_token AS token, version,
              enabled AND deleted_at IS NULL AS in_use,
              (SELECT stream.last_position FROM event_streams stream
               WHERE stream.organisation_id = webhooks.organisation_id
                 AND stream.mode = webhooks.mode) AS last_position,
              EXISTS (SELECT FROM webhook_parked parked WHERE parked.organisation_id = webhooks.organisation_id
                                                          AND parked.webhook_id = webhooks.id) AS has_parked
), attempt AS (
    INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, status, error, acknowledged,
                                  duration_ms, answer)
    SELECT organisation_id, id, $6, date_trunc('milliseconds', clock_timestamp()),
           coalesce($7::bigint[], ARRAY(SELECT generate_series($12::bigint, $5))), $8, NULL, true, $9, $10
    FROM settled
)
SELECT organisation_id, mode, id, url, account_ids, secret_box, old_secret_box, cursor_position, batch_limit, failures,
       head_refusals, token, version, true AS main_due, last_position, has_parked,
       set_config('synchronous_commit', 'off', true)
FROM settled WHERE in_use
"""


async def settle_acknowledged(
    connection: Connection, lease: Lease, batch: Batch, outcome: Outcome, lease_s: float
) -> Lease | None:
    """The lease as it is now; None when it was lost, and the events go out again, or the webhook is out of use."""
    expires_at = time.monotonic() + lease_s
    row = await connection.fetchrow(
        SETTLE_ACKNOWLEDGED,
        lease.organisation_id,
        lease.id,
        lease.token,
        lease.version,
        batch.reaches,
        new_id("att"),
        # A list is long to encode, and nearly always it is a run that the database can write out by itself.
        None if isinstance(batch.positions, range) else list(batch.positions),
        outcome.status,
        outcome.duration_ms,
        outcome.answer,
        timedelta(seconds=lease_s),
        batch.positions[0],
    )
    return None if row is None else _lease(row, expires_at)


# Nothing in scope up to here: no request, no attempt.
MOVE_CURSOR = """
UPDATE webhooks SET cursor_position = greatest(cursor_position, $5)
WHERE organisation_id = $1 AND id = $2 AND lease_token = $3 AND version = $4
"""


async def pass_over(connection: Connection, lease: Lease, reaches: int) -> None:
    await connection.execute(MOVE_CURSOR, lease.organisation_id, lease.id, lease.token, lease.version, reaches)


SETTLE_REFUSED = """
WITH settled AS (
    UPDATE webhooks
    SET batch_limit = 1, refused_count = refused_count + 1,
        failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()),
        -- What was refused before a change says nothing about the event that is first now.
        head_refusals = head_refusals + CASE WHEN version = $5 THEN $4::integer ELSE 0 END,
        next_attempt_at = CASE WHEN version = $5 THEN clock_timestamp() + $6::interval ELSE next_attempt_at END
    WHERE organisation_id = $1 AND id = $2 AND lease_token = $3
    RETURNING organisation_id, id
)
INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, status, error, acknowledged, duration_ms,
                              answer)
SELECT organisation_id, id, $7, date_trunc('milliseconds', clock_timestamp()), $8, $9, $10, false, $11, $12 FROM settled
"""


async def settle_refused(
    tx: Connection, lease: Lease, batch: Batch, outcome: Outcome, *, head_alone: bool, pause: timedelta
) -> bool:
    status = await tx.execute(
        SETTLE_REFUSED,
        lease.organisation_id,
        lease.id,
        lease.token,
        1 if head_alone else 0,
        lease.version,
        pause,
        new_id("att"),
        list(batch.positions),
        outcome.status,
        outcome.error,
        outcome.duration_ms,
        outcome.answer,
    )
    return status == "INSERT 0 1"


# Locks the row, so that what follows in the transaction happens under the lease and the registration as it was read.
HOLD = """
SELECT true FROM webhooks WHERE organisation_id = $1 AND id = $2 AND lease_token = $3 AND version = $4 FOR UPDATE
"""


async def hold(tx: Connection, lease: Lease) -> bool:
    held = await tx.fetchval(HOLD, lease.organisation_id, lease.id, lease.token, lease.version)
    return held is True


def cut_to_size(positions: Sequence[int], payloads: Sequence[bytes], limit: int, end: int) -> Batch:
    """As many as fit. When some are left out, the cursor reaches only the last one that is in."""
    sizes = itertools.accumulate(len(payload) + len(b",") for payload in payloads)
    count = max(1, sum(size <= MAX_EVENTS_BYTES + len(b",") for size in sizes))
    cut = count < len(payloads) or len(payloads) == limit
    return Batch(positions[:count], b",".join(payloads[:count]), positions[count - 1] if cut else end)


def _lease(row: asyncpg.Record, expires_at: float) -> Lease:
    return Lease(
        organisation_id=row["organisation_id"],
        mode=Mode(row["mode"]),
        id=row["id"],
        url=row["url"],
        account_ids=tuple(row["account_ids"]),
        secret_box=row["secret_box"],
        old_secret_box=row["old_secret_box"],
        cursor_position=row["cursor_position"],
        batch_limit=row["batch_limit"],
        failures=row["failures"],
        head_refusals=row["head_refusals"],
        token=row["token"],
        version=row["version"],
        main_due=row["main_due"],
        last_position=row["last_position"],
        has_parked=row["has_parked"],
        expires_at=expires_at,
    )
