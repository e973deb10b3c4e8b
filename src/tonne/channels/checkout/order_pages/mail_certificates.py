"""Mailing certificates to the people who paid through an offset link: the first, replacements and withdrawals."""

from datetime import timedelta
from typing import ClassVar

import structlog
from msgspec import Struct

from tonne.channels.checkout import queue
from tonne.channels.checkout.order_pages.certificate_mails import (
    compose_certificate_mail,
    compose_replacement,
    compose_withdrawal,
    read_certificate_recipient,
)
from tonne.channels.checkout.queue import DueMail, find_unmailed
from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Database
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.selling.accounts.customer_mail import enqueue_customer_mail
from tonne.selling.orders.mails.order_links import order_url
from tonne.selling.orders.model import OrderKey
from tonne.supply.certificates.credentials.issue_credential import RenderCertificate
from tonne.supply.certificates.mail_store import DueCertificate, claim_changed, finish_changed

BATCH = 10
POSTPONE_BATCH = 1000
# Long enough to render and enqueue a batch.
LEASE = timedelta(minutes=2)

_log = structlog.get_logger()


class MailCertificates(Struct, frozen=True):
    """A job of the worker. Settling the checkout and enqueuing the mail commit together, so each is mailed once."""

    EVERY_S: ClassVar[int] = 2

    database: Database
    certificates: RenderCertificate
    clock: Clock
    settings: Settings

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
            async with self.database.transaction() as tx:
                await queue.finish_mail(tx, due.scope, due)
            return
        pdf = await self.certificates.render(due.record)
        async with self.database.transaction() as tx:
            if not await queue.finish_mail(tx, due.scope, due):
                return
            url = await order_url(tx, due.scope, due.record.order_id, settings=self.settings, now=self.clock())
            order_id = due.record.order_id
            recipient = await read_certificate_recipient(tx, due.scope, order_id, email=due.email, url=url)
            message = compose_certificate_mail(self.settings, recipient, due.record, pdf)
            await enqueue_customer_mail(tx, due.scope, due.email, message, subject_id=due.checkout_id)


class MailChangedCertificates(Struct, frozen=True):
    """A job of the worker. Finishing the certificate and enqueuing the mail commit together, so each is mailed once."""

    EVERY_S: ClassVar[int] = 2

    database: Database
    certificates: RenderCertificate
    clock: Clock
    settings: Settings

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
            async with self.database.transaction() as tx:
                await finish_changed(tx, due.scope, due)
            return
        pdf = b"" if is_withdrawn else await self.certificates.render(due.record)
        async with self.database.transaction() as tx:
            # Before the certificate: see the lock order.
            url = await order_url(tx, due.scope, due.order_id, settings=self.settings, now=self.clock())
            recipient = await read_certificate_recipient(tx, due.scope, due.order_id, email=due.email, url=url)
            if due.withdrawn_reason is None:
                message = compose_replacement(self.settings, recipient, due.record, pdf)
            else:
                message = compose_withdrawal(self.settings, recipient, due.record, due.withdrawn_reason)
            if await finish_changed(tx, due.scope, due):
                await enqueue_customer_mail(tx, due.scope, due.email, message, subject_id=due.order_id)
