"""SQL of parked accounts, and of the events that were skipped for them."""

from datetime import datetime, timedelta

from tonne.channels.webhooks.delivery.outcomes import RefusedAccount
from tonne.channels.webhooks.model import Lease, ParkedAccount, Webhook, types_of
from tonne.platform.db.database import Connection

_COLUMNS = """parked.account_id, parked.position, event.id AS event_id, event.event_type, parked.refusals,
    parked.parked_at, parked.next_attempt_at"""

LIST_PARKED = f"""
SELECT {_COLUMNS} FROM webhook_parked parked JOIN events event
  ON event.organisation_id = $1 AND event.mode = $3 AND event.position = parked.position
WHERE parked.organisation_id = $1 AND parked.webhook_id = $2 ORDER BY parked.parked_at, parked.account_id
"""  # noqa: S608 - only the constant above is inserted


async def list_parked(connection: Connection, webhook: Webhook) -> list[ParkedAccount]:
    rows = await connection.fetch(LIST_PARKED, webhook.organisation_id, webhook.id, webhook.mode)
    return [ParkedAccount(**row) for row in rows]


FIND_DUE = f"""
SELECT {_COLUMNS} FROM webhook_parked parked JOIN events event
  ON event.organisation_id = $1 AND event.mode = $3 AND event.position = parked.position
WHERE parked.organisation_id = $1 AND parked.webhook_id = $2 AND parked.position <= $4
  AND parked.next_attempt_at <= clock_timestamp()
ORDER BY parked.next_attempt_at LIMIT 1
"""  # noqa: S608 - only the constant above is inserted


async def find_due(connection: Connection, lease: Lease) -> ParkedAccount | None:
    """The account that has been due for longest.

    Accounts whose refused event is ahead of the cursor are left out: after a rewind earlier events must go first.
    """
    row = await connection.fetchrow(FIND_DUE, lease.organisation_id, lease.id, lease.mode, lease.cursor_position)
    return None if row is None else ParkedAccount(**row)


PARK = """
INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, parked_at, next_attempt_at)
VALUES ($1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp() + $6::interval)
ON CONFLICT (organisation_id, webhook_id, account_id) DO UPDATE SET position = least(webhook_parked.position, $4)
"""


async def park(tx: Connection, lease: Lease, account: RefusedAccount, pause: timedelta) -> None:
    refused = (account.account_id, account.position, account.refusals)
    await tx.execute(PARK, lease.organisation_id, lease.id, *refused, pause)


REFUSE_PARKED = """
UPDATE webhook_parked SET refusals = refusals + 1, next_attempt_at = clock_timestamp() + $4::interval
WHERE organisation_id = $1 AND webhook_id = $2 AND account_id = $3
"""


async def refuse_parked(tx: Connection, lease: Lease, account_id: str, pause: timedelta) -> None:
    await tx.execute(REFUSE_PARKED, lease.organisation_id, lease.id, account_id, pause)


POSTPONE = """
UPDATE webhook_parked SET next_attempt_at = greatest(next_attempt_at, clock_timestamp() + $3::interval)
WHERE organisation_id = $1 AND webhook_id = $2
"""


async def postpone(tx: Connection, lease: Lease, pause: timedelta) -> None:
    """No parked account of the webhook is due before the pause ends."""
    await tx.execute(POSTPONE, lease.organisation_id, lease.id, pause)


# Moves the account to its next event up to the cursor. If there is none, the account is no longer parked.
ADVANCE_PARKED = f"""
WITH next AS (
    SELECT min(event.position) AS position
    FROM webhooks webhook LEFT JOIN events event
      ON event.organisation_id = $1 AND event.mode = webhook.mode AND event.account_id = $3
     AND event.position > $4 AND event.position <= webhook.cursor_position
     AND event.event_type = ANY ({types_of("webhook")})
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
"""  # noqa: S608 - only the expression above is inserted


async def advance_parked(tx: Connection, webhook: Webhook | Lease, account_id: str, done_position: int) -> None:
    """The caller holds the lock on the webhook's row: otherwise the cursor could move meanwhile."""
    await tx.execute(ADVANCE_PARKED, webhook.organisation_id, webhook.id, account_id, done_position)


RECORD_SKIP = """
INSERT INTO webhook_skips (organisation_id, webhook_id, position, skipped_at, skipped_by) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (organisation_id, webhook_id, position) DO NOTHING
"""
# A request in flight with the skipped event must not settle it.
CHANGE_VERSION = "UPDATE webhooks SET version = version + 1 WHERE organisation_id = $1 AND id = $2"


async def skip_parked(tx: Connection, webhook: Webhook, parked: ParkedAccount, *, by: str, at: datetime) -> None:
    """Record the skip and continue with the account's next event."""
    await tx.execute(RECORD_SKIP, webhook.organisation_id, webhook.id, parked.position, at, by)
    await advance_parked(tx, webhook, parked.account_id, parked.position)
    await tx.execute(CHANGE_VERSION, webhook.organisation_id, webhook.id)


DROP_OUT_OF_SCOPE = """
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


async def drop_out_of_scope(tx: Connection, webhook: Webhook, cursor_position: int, *, by: str) -> None:
    """Unpark the accounts that are no longer in scope and record their waiting events as skipped."""
    accounts = list(webhook.account_ids)
    await tx.execute(
        DROP_OUT_OF_SCOPE, webhook.organisation_id, webhook.id, accounts, webhook.mode, cursor_position, by
    )


# Skips the waiting events of parked accounts whose types the webhook no longer gets. Returns the accounts that are
# parked on such an event.
SKIP_OTHER_TYPES = """
WITH skipped AS (
    INSERT INTO webhook_skips (organisation_id, webhook_id, position, skipped_at, skipped_by)
    SELECT $1, $2, event.position, clock_timestamp(), $6
    FROM webhook_parked parked JOIN events event
      ON event.organisation_id = $1 AND event.mode = $3 AND event.account_id = parked.account_id
     AND event.position >= parked.position AND event.position <= $5 AND event.event_type <> ALL ($4::text[])
    WHERE parked.organisation_id = $1 AND parked.webhook_id = $2
    ON CONFLICT (organisation_id, webhook_id, position) DO NOTHING
)
SELECT parked.account_id, parked.position
FROM webhook_parked parked JOIN events event
  ON event.organisation_id = $1 AND event.mode = $3 AND event.position = parked.position
WHERE parked.organisation_id = $1 AND parked.webhook_id = $2 AND event.event_type <> ALL ($4)
"""


async def skip_other_types(tx: Connection, webhook: Webhook, cursor_position: int, *, by: str) -> None:
    """After a change of the types: parked accounts continue with their next event of a type that is delivered."""
    key = (webhook.organisation_id, webhook.id, webhook.mode)
    for row in await tx.fetch(SKIP_OTHER_TYPES, *key, webhook.delivered_types, cursor_position, by):
        await advance_parked(tx, webhook, row["account_id"], row["position"])
