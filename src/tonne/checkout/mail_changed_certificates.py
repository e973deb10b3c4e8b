"""Mails to customers whose certificate was replaced or withdrawn."""

from datetime import timedelta
from email.message import EmailMessage

from tonne.accounts.customer_mail import enqueue_customer_mail
from tonne.base.clock import Clock
from tonne.base.settings import Settings
from tonne.db.batches import run_each
from tonne.db.pool import Database
from tonne.gateways.mail import TEST_SUBJECT, Attachment, compose_mail, is_mail_address
from tonne.gateways.mail_layout import one_line
from tonne.retirements.certificate_mail_store import DueCertificate, claim_changed_any_account, finish_changed
from tonne.retirements.certificate_record import CertificateRecord
from tonne.retirements.render_certificate import render_certificate

BATCH = 10
# Long enough to render and enqueue a batch.
LEASE = timedelta(minutes=2)


class MailChangedCertificates:
    """A job of the worker. Finishing the certificate and enqueuing the mail commit together, so each is mailed once."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        """Mail a batch; false when none is due."""
        now = self._clock()
        async with self._database.connection() as connection:
            claimed = await claim_changed_any_account(connection, now, now + LEASE, BATCH)
        await run_each(
            claimed,
            self._mail,
            failure_event="changed_certificate_mail_failed",
            describe=lambda due: {"order_id": due.order_id},
        )
        return bool(claimed)

    async def _mail(self, due: DueCertificate) -> None:
        message = None
        if is_mail_address(due.email) and due.withdrawn_reason is not None:
            message = compose_withdrawal(self._settings, due.email, due.record, due.withdrawn_reason)
        # A customer who has no certificate yet gets this one as the first.
        elif is_mail_address(due.email) and not due.is_first:
            pdf = await render_certificate(self._database, due.record, self._clock)
            message = compose_replacement(self._settings, due.email, due.record, pdf)
        async with self._database.transaction() as tx:
            if await finish_changed(tx, due.scope, due) and message is not None:
                await enqueue_customer_mail(tx, due.scope, due.email, message, subject_id=due.order_id)


def compose_replacement(settings: Settings, recipient: str, record: CertificateRecord, pdf: bytes) -> EmailMessage:
    old = "" if record.replaces is None else record.replaces.number
    reason = "" if record.replaces is None else one_line(record.replaces.reason)
    text = (
        f"Your certificate {old} was replaced. {_sentence(reason)}\n\n"
        f"The new certificate {record.number} is attached: {record.total_quantity} tonnes of CO2 equivalent, on behalf"
        f" of {one_line(record.beneficiary)}. Please use it instead of the old one. You have nothing to pay.\n\n"
        "Anyone can verify it here:\n"
        f"{record.verification_url}\n"
    )
    attachment = Attachment(f"certificate-{record.number}.pdf", pdf)
    return _compose(
        settings, recipient, f"Your new certificate {record.number}", text, record=record, attachment=attachment
    )


def compose_withdrawal(settings: Settings, recipient: str, record: CertificateRecord, reason: str) -> EmailMessage:
    text = (
        f"Your certificate {record.number} over {record.total_quantity} tonnes of CO2 equivalent was withdrawn."
        f" {_sentence(one_line(reason))}\n\n"
        "Its page shows its state, and a new certificate as soon as there is one:\n"
        f"{record.verification_url}\n"
    )
    return _compose(settings, recipient, f"Your certificate {record.number} was withdrawn", text, record=record)


def _compose(
    settings: Settings,
    recipient: str,
    subject: str,
    text: str,
    *,
    record: CertificateRecord,
    attachment: Attachment | None = None,
) -> EmailMessage:
    is_test = record.mode == "test"
    questions = f"Questions? Write to {settings.seller_email}\n" if settings.seller_email else ""
    return compose_mail(
        settings,
        [recipient],
        f"{TEST_SUBJECT if is_test else ''}{subject}",
        text,
        notice="This is a test. No money was charged and no credits were retired." if is_test else None,
        closing=f"{one_line(record.issuer)}\n{questions}",
        attachment=attachment,
    )


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
