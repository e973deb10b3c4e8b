"""Mailing certificates to the people who paid through an offset link: the first, replacements and withdrawals."""

from datetime import timedelta
from email.message import EmailMessage
from typing import ClassVar

import structlog
from msgspec import Struct

from tonne.channels.checkout import queue
from tonne.channels.checkout.queue import DueMail, find_unmailed
from tonne.platform.db.batches import RowJobWithSettings, run_each
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.layout import button_lines, fact_lines, join_blocks, one_line
from tonne.platform.documents.mail.outbox import Urgency
from tonne.platform.documents.mail.send_mail import Attachment, compose_mail, is_mail_address
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope
from tonne.platform.web.wording import LocalWording, wording_in
from tonne.selling.accounts.customer_mail import enqueue_customer_mail
from tonne.selling.orders.mails.order_links import order_url
from tonne.selling.orders.model import OrderKey
from tonne.supply.certificates.credentials.issue_credential import RenderCertificate
from tonne.supply.certificates.mail_store import DueCertificate, claim_changed, finish_changed
from tonne.supply.certificates.record import CertificateRecord

READ_RECIPIENT = """
SELECT orders.language,
       CASE WHEN accounts.kind = 'client_account' THEN accounts.name ELSE organisations.name END AS merchant
FROM orders JOIN accounts ON accounts.id = orders.account_id
JOIN organisations ON organisations.id = orders.organisation_id
WHERE orders.account_id = $1 AND orders.id = $2
"""


class CertificateRecipient(Struct, frozen=True):
    """`url` is the order's page, if there is one."""

    email: str
    url: str | None = None
    language: str = "en"
    merchant: str | None = None


async def read_certificate_recipient(
    connection: Connection, scope: Scope, order_id: str, *, email: str, url: str | None
) -> CertificateRecipient:
    [row] = await connection.fetch(READ_RECIPIENT, scope.account_id, order_id)
    return CertificateRecipient(email, url, row["language"], row["merchant"])


def compose_certificate_mail(
    settings: Settings, to: CertificateRecipient, record: CertificateRecord, pdf: bytes
) -> EmailMessage:
    wording = wording_in(to.language)
    _, mass = wording.translate, wording.tonnes(record.total_quantity)
    blocks = [
        _(
            "Thank you. Carbon credits for %(mass)s of CO₂ equivalent were retired on behalf of %(name)s. Your"
            " certificate is attached.",
            mass=mass,
            name=one_line(record.beneficiary),
        ),
        fact_lines([(_("Certificate"), record.number), *_projects(record, wording)]),
        button_lines(_("See your order and its certificate"), to.url),
        _("Anyone who has the number can verify the certificate."),
        button_lines(_("Verify the certificate"), record.verification_url),
    ]
    subject = _("Your certificate: %(mass)s retired", mass=mass)
    return _compose(settings, to, subject, blocks, record=record, pdf=pdf)


def compose_replacement(
    settings: Settings, to: CertificateRecipient, record: CertificateRecord, pdf: bytes
) -> EmailMessage:
    wording = wording_in(to.language)
    _, old = wording.translate, "" if record.replaces is None else record.replaces.number
    reason = "" if record.replaces is None else one_line(record.replaces.reason)
    facts = [
        (_("New certificate"), record.number),
        (_("Replaces"), old),
        (_("Name on the certificate"), record.beneficiary),
        (_("Quantity"), wording.tonnes(record.total_quantity)),
    ]
    blocks = [
        f"{_('Your certificate %(number)s was replaced.', number=old)} {_sentence(reason)}",
        _("The new certificate is attached. Please use it instead of the old one. You have nothing to pay."),
        fact_lines(facts),
        button_lines(_("See your order and its certificate"), to.url),
        button_lines(_("Verify the certificate"), record.verification_url),
    ]
    subject = _("Your new certificate %(number)s", number=record.number)
    return _compose(settings, to, subject, blocks, record=record, pdf=pdf)


def compose_withdrawal(
    settings: Settings, to: CertificateRecipient, record: CertificateRecord, reason: str
) -> EmailMessage:
    wording = wording_in(to.language)
    _ = wording.translate
    withdrawn = _(
        "Your certificate %(number)s for %(mass)s of CO₂ equivalent was withdrawn.",
        number=record.number,
        mass=wording.tonnes(record.total_quantity),
    )
    blocks = [
        f"{withdrawn} {_sentence(one_line(reason))}",
        _("Please don't use it any more. Its page shows its state, and a new certificate as soon as there is one."),
        button_lines(_("See the state of the certificate"), record.verification_url),
        button_lines(_("See your order"), to.url),
    ]
    subject = _("Your certificate %(number)s was withdrawn", number=record.number)
    return _compose(settings, to, subject, blocks, record=record)


# More would hide the buttons. The PDF has all.
MAX_PROJECTS = 4


def _projects(record: CertificateRecord, wording: LocalWording) -> list[tuple[str, str]]:
    names = list(dict.fromkeys(one_line(line.project_name) for line in record.lines))
    _, more = wording.translate, len(names) - MAX_PROJECTS
    shown = "; ".join(names[:MAX_PROJECTS])
    if more > 0:
        shown = _.plural("%(names)s and %(n)s more", "%(names)s and %(n)s more", more, names=shown)
    return [(_.plural("Project", "Projects", len(names)), shown)] if names else []


def _compose(
    settings: Settings,
    to: CertificateRecipient,
    subject: str,
    blocks: list[str],
    *,
    record: CertificateRecord,
    pdf: bytes | None = None,
) -> EmailMessage:
    is_test, wording = record.mode == "test", wording_in(to.language)
    _ = wording.translate
    questions = _("Questions? Write to %(email)s", email=settings.seller_email) if settings.seller_email else ""
    return compose_mail(
        settings,
        [to.email],
        subject,
        join_blocks(blocks),
        wording=wording,
        merchant=to.merchant,
        is_test=is_test,
        notice=_("This is a test. No money was charged and no credits were retired.") if is_test else None,
        closing=f"{one_line(record.issuer)}\n{questions}",
        attachments=[] if pdf is None else [Attachment(f"certificate-{record.number}.pdf", pdf)],
    )


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) or not text else f"{text}."


BATCH = 10
POSTPONE_BATCH = 1000
# Long enough to render and enqueue a batch.
LEASE = timedelta(minutes=2)

_log = structlog.get_logger()


class MailCertificates(RowJobWithSettings, frozen=True):
    """A job of the worker. Settling the checkout and enqueuing the mail commit together, so each is mailed once."""

    EVERY_S: ClassVar[int] = 2

    certificates: RenderCertificate

    async def run_once(self) -> bool:
        """Mail a batch of certificates; false when none is due."""
        now = self.clock()
        async with self.database.connection() as connection:
            await queue.postpone_mails(connection, now, POSTPONE_BATCH)
            claimed = await queue.claim_mails(connection, now, now + LEASE, BATCH)
        return await run_each(
            claimed,
            self._mail,
            failure_event="certificate_mail_failed",
            describe=lambda due: {"checkout_id": due.checkout_id},
        )

    async def _mail(self, due: DueMail) -> None:
        if not is_mail_address(due.email):
            _log.warning("certificate_without_recipient", checkout_id=due.checkout_id)
            await self.database.commit(queue.finish_mail, due.scope, due)
            return
        pdf = await self.certificates.render_to_send(due.record)
        if pdf is None:
            # It is due again when the lease ends.
            return
        async with self.database.transaction() as tx:
            if not await queue.finish_mail(tx, due.scope, due):
                return
            url = await order_url(tx, due.scope, due.record.order_id, settings=self.settings, now=self.clock())
            order_id = due.record.order_id
            recipient = await read_certificate_recipient(tx, due.scope, order_id, email=due.email, url=url)
            message = compose_certificate_mail(self.settings, recipient, due.record, pdf)
            about = due.scope, due.email, message
            await enqueue_customer_mail(tx, *about, subject_id=due.checkout_id, urgency=Urgency.BULK)


class MailChangedCertificates(RowJobWithSettings, frozen=True):
    """A job of the worker. Finishing the certificate and enqueuing the mail commit together, so each is mailed once."""

    EVERY_S: ClassVar[int] = 2

    certificates: RenderCertificate

    async def run_once(self) -> bool:
        """Mail a batch; false when none is due."""
        now = self.clock()
        async with self.database.connection() as connection:
            claimed = await claim_changed(connection, now, now + LEASE, BATCH)
            orders = [OrderKey(due.scope.account_id, due.order_id) for due in claimed]
            unmailed = await find_unmailed(connection, orders) if orders else set()
        return await run_each(
            claimed,
            lambda due: self._mail(due, is_first=due.order_id in unmailed),
            failure_event="changed_certificate_mail_failed",
            describe=lambda due: {"order_id": due.order_id},
        )

    async def _mail(self, due: DueCertificate, *, is_first: bool) -> None:
        is_withdrawn = due.withdrawn_reason is not None
        # A customer who has no certificate yet gets this one as the first.
        if not is_mail_address(due.email) or (is_first and not is_withdrawn):
            await self.database.commit(finish_changed, due.scope, due)
            return
        pdf = b"" if is_withdrawn else await self.certificates.render_to_send(due.record)
        if pdf is None:
            # It is due again when the lease ends.
            return
        async with self.database.transaction() as tx:
            # Before the certificate: see the lock order.
            url = await order_url(tx, due.scope, due.order_id, settings=self.settings, now=self.clock())
            recipient = await read_certificate_recipient(tx, due.scope, due.order_id, email=due.email, url=url)
            if due.withdrawn_reason is None:
                message = compose_replacement(self.settings, recipient, due.record, pdf)
            else:
                message = compose_withdrawal(self.settings, recipient, due.record, due.withdrawn_reason)
            if await finish_changed(tx, due.scope, due):
                about = due.scope, due.email, message
                await enqueue_customer_mail(tx, *about, subject_id=due.order_id, urgency=Urgency.BULK)
