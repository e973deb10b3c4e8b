"""The outbox: mails are inserted in the transaction that causes them. `send_outbox.py` sends them."""

import base64
import hashlib
import re
from datetime import datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from enum import IntEnum, StrEnum

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection, value_of
from tonne.platform.documents.mail.stored_files import BOUNDARY
from tonne.platform.values.context import new_id
from tonne.platform.values.errors import Kind, TonneError

# Starts the last error of a mail that could not be sent because there was no connection.
AWAY = "no connection to the mail server: "


class Urgency(IntEnum):
    """Of the mails that are due, the more urgent ones are sent first."""

    # Somebody waits for it, or must learn of it at once: links to sign in, changes of a sign-in.
    SIGN_IN = 0
    NORMAL = 1
    # Many at once, which nobody waits for: invoices, certificates.
    BULK = 2


ENQUEUE = """
INSERT INTO mails (id, organisation_id, recipients, message, created_at, next_attempt_at, held_reason, subject_id,
                   urgency)
VALUES ($1, $2, $3, $4, clock_timestamp(), CASE WHEN $5::text IS NULL THEN clock_timestamp() END, $5, $6, $7)
"""


async def enqueue(
    tx: Connection,
    organisation_id: str,
    recipients: list[str],
    message: EmailMessage,
    *,
    held_reason: str | None = None,
    subject_id: str | None = None,
    urgency: Urgency = Urgency.NORMAL,
) -> None:
    """With `held_reason`, the mail is kept for the operator to look at, and never sent.

    `subject_id` is the order, invoice or refund that the mail is about: it then appears in the order's timeline.
    """
    message["Date"] = formatdate(usegmt=True)
    mail = new_id("mail"), organisation_id, recipients, message.as_bytes()
    await tx.execute(ENQUEUE, *mail, held_reason, subject_id, urgency)


_ATTACHED = re.compile(rb'^Content-Disposition: attachment;\s+filename="([^"]+)"', re.MULTILINE)


def without_attachments(message: bytes) -> bytes:
    """The mail with a note instead of each attachment, which says what was sent.

    A PDF takes ten times the space of everything else that is stored for an order, and can be made again. The mail is
    cut as bytes, in the form that `compose_mail` gives it: the library takes ten times as long for it as to send it.
    """
    head, _, body = message.partition(b"\r\n\r\n")
    if (found := BOUNDARY.search(head)) is None:
        return message
    line = b"\r\n--" + found[1]
    return b"\r\n\r\n".join([head, line.join(map(_without_attachment, body.split(line)))])


def _without_attachment(part: bytes) -> bytes:
    head, _, encoded = part.partition(b"\r\n\r\n")
    if (found := _ATTACHED.search(head)) is None or b"Content-Transfer-Encoding: base64" not in head:
        return part
    try:
        content, name = base64.b64decode(encoded), found[1].decode()
    except ValueError:
        # The mail is sent: an error here would lead to a second one.
        return part
    lines = (
        'Content-Type: text/plain; charset="utf-8"',
        f'Content-Disposition: attachment; filename="{name}.txt"',
        "",
        f"{name} ({len(content)} bytes) was attached to this mail. It was removed from the outbox after sending.",
        f"SHA-256: {hashlib.sha256(content).hexdigest()}",
        "",
    )
    return "".join(f"\r\n{each}" for each in lines).encode()


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
    return int(await connection.fetchval(COUNT_UNSENT, start, end))


def _mail(row: asyncpg.Record) -> StoredMail:
    raw = row["message"]
    return value_of(StoredMail, row, raw=raw, message=message_from_bytes(raw, policy=SMTP))
