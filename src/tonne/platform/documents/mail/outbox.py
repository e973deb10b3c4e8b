"""The outbox: mails are inserted in the transaction that causes them, and a worker sends them, with retries."""

import hashlib
import re
from datetime import datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from enum import StrEnum

import asyncpg
import structlog
from msgspec import Struct, field

from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Connection, Database, value_of
from tonne.platform.documents.mail.send_mail import MailGateway, MailRefused
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.instruments import CounterFamily, Metric
from tonne.platform.process.telemetry.spans import SpanKind
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import new_id
from tonne.platform.values.errors import Kind, TonneError

# Minutes between attempts, almost two days in total. The first pauses get past greylisting, the last past a day of
# downtime. After the last one there is one more attempt.
PAUSES_MIN = (1, 5, 15, 60, 180, 360, 720, 1440)
LEASE = timedelta(minutes=2)

_log = structlog.get_logger()

ENQUEUE = """
INSERT INTO mails (id, organisation_id, recipients, message, created_at, next_attempt_at, held_reason, subject_id)
VALUES ($1, $2, $3, $4, clock_timestamp(), CASE WHEN $5::text IS NULL THEN clock_timestamp() END, $5, $6)
"""


async def enqueue(
    tx: Connection,
    organisation_id: str,
    recipients: list[str],
    message: EmailMessage,
    *,
    held_reason: str | None = None,
    subject_id: str | None = None,
) -> None:
    """With `held_reason`, the mail is kept for the operator to look at, and never sent.

    `subject_id` is the order, invoice or refund that the mail is about: it then appears in the order's timeline.
    """
    message["Date"] = formatdate(usegmt=True)
    await tx.execute(ENQUEUE, new_id("mail"), organisation_id, recipients, message.as_bytes(), held_reason, subject_id)


CLAIM = """
WITH due AS MATERIALIZED (
    SELECT id, created_at FROM mails WHERE sent_at IS NULL AND next_attempt_at <= clock_timestamp()
    ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE mails SET attempts = attempts + 1, lease_token = lease_token + 1,
                 next_attempt_at = clock_timestamp() + $1::interval
FROM due WHERE mails.id = due.id AND mails.created_at = due.created_at
RETURNING mails.id, mails.created_at, recipients, message, attempts, lease_token
"""


async def claim_mail(connection: Connection) -> list[asyncpg.Record]:
    """A list of one mail, or an empty one."""
    return await connection.fetch(CLAIM, LEASE)


# With `created_at`, which is the partition key: otherwise the statement would look in all partitions.
SETTLE_SENT = """
UPDATE mails SET sent_at = clock_timestamp(), last_error = NULL, message = $4
WHERE id = $1 AND created_at = $2 AND lease_token = $3
"""


async def _settle_sent(connection: Connection, mail: asyncpg.Record) -> bool:
    """False when the lease is lost: another worker sends the mail again."""
    key = (mail["id"], mail["created_at"], mail["lease_token"])
    return await connection.execute(SETTLE_SENT, *key, without_attachments(mail["message"])) == "UPDATE 1"


SETTLE_REFUSED = """
UPDATE mails SET last_error = $4, next_attempt_at = clock_timestamp() + $5::interval, recipients = $6
WHERE id = $1 AND created_at = $2 AND lease_token = $3
"""


async def _settle_refused(connection: Connection, mail: asyncpg.Record, refused: MailRefused, left: list[str]) -> bool:
    """Schedule the next attempt for the recipients that are left, or give up. Returns whether it gave up."""
    given_up = refused.final or mail["attempts"] > len(PAUSES_MIN)
    pause = None if given_up else timedelta(minutes=PAUSES_MIN[mail["attempts"] - 1])
    key = (mail["id"], mail["created_at"], mail["lease_token"])
    await connection.execute(SETTLE_REFUSED, *key, str(refused)[:500], pause, left)
    reason = _without_addresses(str(refused), mail["recipients"])
    _log.warning("mail_refused", mail_id=mail["id"], attempts=mail["attempts"], given_up=given_up, reason=reason)
    return given_up


def _without_addresses(text: str, recipients: list[str]) -> str:
    """Mail servers repeat the address. Logs must not contain it."""
    for recipient in recipients:
        text = re.sub(re.escape(recipient), "(recipient)", text, flags=re.IGNORECASE)
    return text


class SendMails(Struct, frozen=True):
    database: Database
    gateway: MailGateway
    settings: Settings
    outcomes: CounterFamily = field(
        default_factory=lambda: CounterFamily(
            "tonne_mails_total",
            "Attempts to send a mail: sent, retried, failed for good, lease_lost.",
            "outcome",
        )
    )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (self.outcomes,)

    async def run_once(self) -> bool:
        """Send one due mail. After a crash between sending and recording it, the mail is sent again."""
        mails = await self.database.run(claim_mail)
        return await run_each(
            mails, self._send, failure_event="mail_not_settled", describe=lambda mail: {"mail_id": mail["id"]}
        )

    async def _send(self, mail: asyncpg.Record) -> None:
        attributes = {"tonne.mail_id": mail["id"], "tonne.attempt": mail["attempts"]}
        with tracing.span("send mail", SpanKind.CLIENT, attributes) as span:
            refused: MailRefused | None = None
            left = list(mail["recipients"])
            try:
                left = await self.gateway.send(self.settings.mail_from, left, mail["message"])
                if left:
                    refused = MailRefused(f"{len(left)} recipients were refused for now")
            except MailRefused as error:
                refused = error
            except Exception as error:  # noqa: BLE001 - a mail that breaks the gateway is retried like any other
                _log.exception("mail_gateway_failed", mail_id=mail["id"])
                refused = MailRefused(f"the mail gateway failed: {error!r}")
            async with self.database.connection() as connection:
                if refused is None:
                    outcome = "sent" if await _settle_sent(connection, mail) else "lease_lost"
                else:
                    outcome = "failed" if await _settle_refused(connection, mail, refused, left) else "retried"
            self.outcomes.inc(outcome)
            span.set("tonne.outcome", outcome)


def without_attachments(message: bytes) -> bytes:
    """The mail with a note instead of each attachment, which says what was sent.

    A PDF takes ten times the space of everything else that is stored for an order, and can be made again.
    """
    try:
        return _without_attachments(message)
    except Exception:  # noqa: BLE001 - the mail is sent: an error must not lead to a second one
        _log.exception("mail_attachments_not_removed")
        return message


def _without_attachments(message: bytes) -> bytes:
    mail = message_from_bytes(message, policy=SMTP)
    attachments = list(mail.iter_attachments())
    for part in attachments:
        name, content = part.get_filename() or part.get_content_type(), part.get_payload(decode=True)
        if not isinstance(content, bytes):
            return message
        note = (
            f"{name} ({len(content)} bytes) was attached to this mail. It was removed from the outbox after sending.\n"
            f"SHA-256: {hashlib.sha256(content).hexdigest()}\n"
        )
        part.clear()
        part.set_content(note, disposition="attachment", filename=f"{name}.txt")
    return mail.as_bytes() if attachments else message


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
