"""SQL of mails that were given up, for the operator."""

from tonne.platform.db.pool import Connection

# From the start of the schedule. The token is incremented, so that a worker that still sends it changes nothing.
RETRY = """
UPDATE mails SET next_attempt_at = clock_timestamp(), attempts = 0, lease_token = lease_token + 1
WHERE id = $1 AND sent_at IS NULL AND next_attempt_at IS NULL
  AND held_reason IS NULL AND discarded_at IS NULL RETURNING organisation_id
"""


async def retry_mail_any_account(tx: Connection, mail_id: str) -> str | None:
    """Make a mail that was given up due again. Returns its organisation, None if there is no such mail."""
    organisation_id: str | None = await tx.fetchval(RETRY, mail_id)
    return organisation_id


DISCARD = """
UPDATE mails SET discarded_at = clock_timestamp()
WHERE id = $1 AND sent_at IS NULL AND next_attempt_at IS NULL
  AND held_reason IS NULL AND discarded_at IS NULL RETURNING organisation_id
"""


async def discard_mail_any_account(tx: Connection, mail_id: str) -> str | None:
    """Accept that a mail that was given up is never sent. Returns its organisation, None if there is no such mail."""
    organisation_id: str | None = await tx.fetchval(DISCARD, mail_id)
    return organisation_id
