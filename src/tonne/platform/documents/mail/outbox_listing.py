"""The mails in the outbox, for the operator."""

from datetime import datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from enum import StrEnum

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection, value_of
from tonne.platform.values.errors import Kind, TonneError


class MailNotFound(TonneError, kind=Kind.NOT_FOUND, code="mail_not_found"):
    """On the command line: there is no such mail in the outbox.

    See `tonne mail list`.
    """

    message = "There is no such mail. Run `tonne mail list` to see the mails in the outbox."


class MailState(StrEnum):
    """`held` mails are never sent. `failed` ones were given up after the last attempt; an operator may discard them."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    DISCARDED = "discarded"
    HELD = "held"


class StoredMail(Struct, frozen=True, kw_only=True):
    id: str
    organisation_id: str
    state: MailState
    recipients: list[str]
    message: EmailMessage
    raw: bytes
    attempts: int
    # Why it is held, or why the last attempt failed.
    reason: str | None
    created_at: datetime
    sent_at: datetime | None


_STATE = """CASE WHEN held_reason IS NOT NULL THEN 'held' WHEN sent_at IS NOT NULL THEN 'sent'
            WHEN discarded_at IS NOT NULL THEN 'discarded' WHEN next_attempt_at IS NULL THEN 'failed'
            ELSE 'waiting' END"""
_COLUMNS = f"""id, organisation_id, recipients, attempts, coalesce(held_reason, last_error) AS reason, created_at,
       sent_at, {_STATE} AS state"""
# The headers are enough for a list. Attachments are large.
LIST_MAILS = f"""
SELECT {_COLUMNS}, substring(message FROM 1 FOR 4096) AS message
FROM mails
WHERE ($1::text IS NULL OR organisation_id = $1) AND ($2::text IS NULL OR {_STATE} = $2)
ORDER BY created_at DESC, id DESC LIMIT $3
"""  # noqa: S608 - columns above


async def list_mails_any_account(
    connection: Connection, organisation_id: str | None, state: MailState | None, limit: int
) -> list[StoredMail]:
    """Newest first, with the start of each message. None: of every organisation, in every state."""
    return [_mail(row) for row in await connection.fetch(LIST_MAILS, organisation_id, state, limit)]


FIND_MAIL = f"SELECT {_COLUMNS}, message FROM mails WHERE id = $1"  # noqa: S608 - columns above


async def require_mail_any_account(connection: Connection, mail_id: str) -> StoredMail:
    row = await connection.fetchrow(FIND_MAIL, mail_id)
    if row is None:
        raise MailNotFound(f"There is no mail {mail_id}. Run `tonne mail list` to see the mails in the outbox.")
    return _mail(row)


COUNT_UNSENT = """
SELECT count(*) FROM mails
WHERE created_at >= $1 AND created_at < $2 AND sent_at IS NULL AND held_reason IS NULL AND discarded_at IS NULL
"""


async def count_unsent(connection: Connection, start: datetime, end: datetime) -> int:
    """Mails of that time that wait, or that were given up and not discarded."""
    count: int = await connection.fetchval(COUNT_UNSENT, start, end)
    return count


def _mail(row: asyncpg.Record) -> StoredMail:
    raw = row["message"]
    return value_of(StoredMail, row, raw=raw, message=message_from_bytes(raw, policy=SMTP))
