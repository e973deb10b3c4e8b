"""The outbox: mails are inserted in the transaction that causes them, and a worker sends them, with retries."""

import re
from datetime import timedelta
from email.message import EmailMessage
from email.utils import formatdate

import asyncpg
import structlog
from msgspec import Struct, field

from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Connection, Database
from tonne.platform.documents.mail.send_mail import MailGateway, MailRefused
from tonne.platform.documents.mail.sent_mail import without_attachments
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.instruments import CounterFamily, Metric
from tonne.platform.process.telemetry.spans import SpanKind
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import new_id

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
