"""Whoever paid through an offset link gets the certificate by mail as soon as there is one."""

from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import NamedTuple

import msgspec
import structlog

from tonne.base.clock import Clock
from tonne.base.scope import Mode, Scope
from tonne.base.settings import Settings
from tonne.db.batches import run_each
from tonne.db.pool import Connection, Database
from tonne.gateways.mail import Attachment, compose_mail, is_mail_address
from tonne.gateways.outbox import enqueue
from tonne.retirements.certificate_record import CertificateRecord
from tonne.retirements.draw_certificate import draw_certificate

BATCH = 10
POSTPONE_BATCH = 1000
# Long enough to draw and enqueue a batch; a worker that dies leaves its checkouts to the next after that.
LEASE = timedelta(minutes=2)

_log = structlog.get_logger()


class DueMail(NamedTuple):
    """`leased_until` is the token of the lease: no later claim has the same."""

    scope: Scope
    checkout_id: str
    email: str
    record: bytes
    leased_until: datetime


class MailCertificates:
    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        """Mail some certificates that are due; false when none is.

        A crash before the mail is in the outbox repeats it, and of two workers with one checkout, one has it done.
        """
        now = self._clock()
        async with self._database.connection() as connection:
            await postpone_any_account(connection, now, POSTPONE_BATCH)
            claimed = await claim_due_any_account(connection, now, now + LEASE, BATCH)
        await run_each(
            claimed,
            self._mail,
            failure_event="certificate_mail_failed",
            describe=lambda due: {"checkout_id": due.checkout_id},
        )
        return bool(claimed)

    async def _mail(self, due: DueMail) -> None:
        if not is_mail_address(due.email):
            _log.warning("certificate_without_recipient", checkout_id=due.checkout_id)
            async with self._database.transaction() as tx:
                await settle(tx, due.scope, due)
            return
        record = msgspec.json.decode(due.record, type=CertificateRecord)
        pdf = await draw_certificate(self._database, record, self._clock)
        message = compose_certificate_mail(self._settings, due.email, record, pdf)
        async with self._database.transaction() as tx:
            if await settle(tx, due.scope, due):
                await enqueue(tx, due.scope.organisation_id, [due.email], message)


# The longer it has taken, the less a further wait matters: a unit that fills slowly is not asked for every minute.
POSTPONE = """
UPDATE checkouts
SET next_attempt_at = $1 + least(greatest(($1 - created_at) / 10, interval '1 minute'), interval '1 hour')
WHERE (account_id, id) IN (
    SELECT checkouts.account_id, checkouts.id
    FROM checkouts JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
    WHERE checkouts.status = 'ordered' AND checkouts.next_attempt_at <= $1 AND orders.status IN ('paid', 'retiring')
    ORDER BY checkouts.next_attempt_at LIMIT $2 FOR UPDATE OF checkouts SKIP LOCKED)
"""


async def postpone_any_account(connection: Connection, now: datetime, limit: int) -> None:
    """Those that are paid and not complete are looked at again later."""
    await connection.execute(POSTPONE, now, limit)


CLAIM_DUE = """
UPDATE checkouts SET next_attempt_at = $2
FROM (
    SELECT checkouts.account_id, checkouts.id, certificates.record
    FROM checkouts
    JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
    JOIN certificates ON certificates.account_id = orders.account_id AND certificates.order_id = orders.id
    WHERE checkouts.status = 'ordered' AND checkouts.next_attempt_at <= $1 AND orders.status = 'complete'
    ORDER BY checkouts.next_attempt_at LIMIT $3 FOR UPDATE OF checkouts SKIP LOCKED) due
WHERE checkouts.account_id = due.account_id AND checkouts.id = due.id
RETURNING checkouts.organisation_id, checkouts.account_id, checkouts.mode, checkouts.id, checkouts.email, due.record,
          checkouts.next_attempt_at
"""


async def claim_due_any_account(
    connection: Connection, now: datetime, leased_until: datetime, limit: int
) -> list[DueMail]:
    """Checkouts whose order is complete, for this worker alone until the lease is over."""
    return [
        DueMail(
            Scope(row["organisation_id"], row["account_id"], Mode(row["mode"])),
            row["id"],
            row["email"],
            row["record"],
            row["next_attempt_at"],
        )
        for row in await connection.fetch(CLAIM_DUE, now, leased_until, limit)
    ]


SETTLE = "UPDATE checkouts SET next_attempt_at = NULL WHERE account_id = $1 AND id = $2 AND next_attempt_at = $3"


async def settle(tx: Connection, scope: Scope, due: DueMail) -> bool:
    """Nothing is left to do for it. False when the lease has run out and another worker has it."""
    return await tx.execute(SETTLE, scope.account_id, due.checkout_id, due.leased_until) == "UPDATE 1"


def compose_certificate_mail(settings: Settings, recipient: str, record: CertificateRecord, pdf: bytes) -> EmailMessage:
    is_test = record.mode == "test"
    test = "This is a test. No money has moved, and no credit was retired.\n\n" if is_test else ""
    issuer = _one_line(record.issuer)
    questions = f"Questions: {settings.seller_email}\n" if settings.seller_email else ""
    text = (
        f"{test}Thank you.\n\n"
        f"Carbon credits for {record.total_quantity} tonnes of CO2 equivalent were retired on behalf of"
        f" {_one_line(record.beneficiary)}. The certificate {record.number} is attached.\n\n"
        "Anybody can check it, and whether a file is genuine, at\n"
        f"{record.verification_url}\n\n"
        f"{issuer}\n{questions}"
    )
    subject = f"{'[TEST] ' if is_test else ''}Your certificate {record.number}: {record.total_quantity} t retired"
    attachment = Attachment(f"certificate-{record.number}.pdf", pdf)
    return compose_mail(settings, [recipient], subject, text, attachment=attachment)


def _one_line(text: str) -> str:
    """Names come from strangers: none may look like a paragraph of ours."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
