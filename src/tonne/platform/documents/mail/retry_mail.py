"""Mails that were given up: send one again, or accept that it is never sent."""

import email
import email.policy
from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, optional
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By
from tonne.platform.values.errors import Kind, TonneError

# The headers are at the start of a message.
HEADER_BYTES = 8192


class MailNotFailed(TonneError, kind=Kind.CONFLICT, code="mail_not_failed"):
    """On the command line: the mail was not given up, or somebody has decided about it.

    See `tonne mail list --state failed`.

    Command line and operator's pages only.
    """

    message = "This mail is not a failed one. Run `tonne mail list --state failed` to see all."


async def retry_failed_mail_any_account(tx: Connection, mail_id: str, *, by: By) -> None:
    """Raises MailNotFailed."""
    await _record(tx, await retry_mail_any_account(tx, mail_id), mail_id, "mail.retried", by=by)


async def discard_failed_mail_any_account(tx: Connection, mail_id: str, *, by: By) -> None:
    """Raises MailNotFailed."""
    await _record(tx, await discard_mail_any_account(tx, mail_id), mail_id, "mail.discarded", by=by)


async def _record(tx: Connection, organisation_id: str | None, mail_id: str, action: str, *, by: By) -> None:
    if organisation_id is None:
        raise MailNotFailed(f"{mail_id} is not a failed mail. Run `tonne mail list --state failed` to see all.")
    await audit.record(tx, organisation_id, action, by=by, subject_id=mail_id)


class FailedMail(Struct, frozen=True):
    id: str
    organisation_id: str
    created_at: datetime
    recipients: list[str]
    attempts: int
    last_error: str | None
    head: bytes

    @property
    def subject(self) -> str:
        return str(email.message_from_bytes(self.head, policy=email.policy.default)["Subject"] or "")


_MAIL = f"""
id, organisation_id, created_at, recipients, attempts, last_error, substring(message FROM 1 FOR {HEADER_BYTES}) AS head
"""
LIST_FAILED = f"""
SELECT {_MAIL} FROM mails
WHERE sent_at IS NULL AND next_attempt_at IS NULL AND held_reason IS NULL AND discarded_at IS NULL
ORDER BY created_at LIMIT $1
"""  # noqa: S608 - columns above


async def list_failed_any_account(connection: Connection, limit: int) -> list[FailedMail]:
    """Oldest first."""
    return [FailedMail(**row) for row in await connection.fetch(LIST_FAILED, limit)]


FIND_FAILED = f"""
SELECT {_MAIL} FROM mails
WHERE id = $1 AND sent_at IS NULL AND next_attempt_at IS NULL AND held_reason IS NULL AND discarded_at IS NULL
"""  # noqa: S608 - columns above


async def find_failed_any_account(connection: Connection, mail_id: str) -> FailedMail | None:
    row = await connection.fetchrow(FIND_FAILED, mail_id)
    return None if row is None else FailedMail(**row)


# From the start of the schedule. The token is incremented, so that a worker that still sends it changes nothing.
RETRY = """
UPDATE mails SET next_attempt_at = clock_timestamp(), attempts = 0, lease_token = lease_token + 1
WHERE id = $1 AND sent_at IS NULL AND next_attempt_at IS NULL
  AND held_reason IS NULL AND discarded_at IS NULL RETURNING organisation_id
"""


async def retry_mail_any_account(tx: Connection, mail_id: str) -> str | None:
    """Make a mail that was given up due again. Returns its organisation, None if there is no such mail."""
    return optional(str, await tx.fetchval(RETRY, mail_id))


DISCARD = """
UPDATE mails SET discarded_at = clock_timestamp()
WHERE id = $1 AND sent_at IS NULL AND next_attempt_at IS NULL
  AND held_reason IS NULL AND discarded_at IS NULL RETURNING organisation_id
"""


async def discard_mail_any_account(tx: Connection, mail_id: str) -> str | None:
    """Accept that a mail that was given up is never sent. Returns its organisation, None if there is no such mail."""
    return optional(str, await tx.fetchval(DISCARD, mail_id))
