"""Compose the mails about the money of orders and put them into the outbox."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from msgspec import Struct

from tonne.money.invoices.documents.pdf import RenderInvoice
from tonne.money.receipts.order_letters import ABOUT_INVOICES, OrderLetter, compose_letter, read_facts
from tonne.platform.db.batches import run_leased
from tonne.platform.db.database import Connection, Database
from tonne.platform.documents.mail.outbox import enqueue
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.selling.accounts.customer_mail import enqueue_customer_mail
from tonne.selling.orders.mails.order_link_store import LinkedOrder
from tonne.selling.orders.mails.order_links import order_urls
from tonne.selling.orders.mails.order_mail_store import DueOrderMail, claim_mails, finish_mails

BATCH = 50
# Long enough to compose a batch and to render its invoices. If the worker dies, another one continues after that.
LEASE = timedelta(minutes=2)


class MailOrders(Struct, frozen=True):
    """A worker job. No transaction is open while a mail is composed.

    Enqueuing a mail and removing its row commit together, and only under the fencing token of the lease: after a crash
    at any step another worker composes the mail again, and a worker whose lease has expired sends nothing.
    """

    database: Database
    clock: Clock
    settings: Settings
    render: RenderInvoice

    async def run_once(self) -> bool:
        """Mail a batch; false when none is due."""
        due = await self.claim()
        await run_leased(
            due,
            self._mail,
            failure_event="order_mail_not_composed",
            describe=lambda each: {"order_id": each.order_id, "kind": each.kind, "cause": each.cause},
        )
        return bool(due)

    async def claim(self) -> list[DueOrderMail]:
        return await self.database.run(claim_mails, LEASE, limit=BATCH)

    async def compose(self, due: Sequence[DueOrderMail]) -> dict[DueOrderMail, OrderLetter]:
        """The mails, from what is true now. Without those that nobody can receive, and refunds that failed since."""
        urls = await self._make_links([each for each in due if each.kind not in ABOUT_INVOICES])
        async with self.database.snapshot() as connection:
            facts = await read_facts(connection, due, urls, settings=self.settings, now=self.clock())
        return {
            each: await compose_letter(found, settings=self.settings, render=self.render, now=self.clock())
            for each, found in facts.items()
        }

    async def send(self, due: Sequence[DueOrderMail], letters: Mapping[DueOrderMail, OrderLetter]) -> None:
        async with self.database.transaction() as tx:
            for each in await finish_mails(tx, due):
                if each in letters:
                    await _enqueue(tx, each, letters[each])

    async def _mail(self, due: Sequence[DueOrderMail]) -> None:
        await self.send(due, await self.compose(due))

    async def _make_links(self, due: Sequence[DueOrderMail]) -> Mapping[str, str | None]:
        if not due:
            return {}
        orders = {each.order_id: LinkedOrder(each.scope, each.order_id) for each in due}
        async with self.database.transaction() as tx:
            return await order_urls(tx, list(orders.values()), settings=self.settings, now=self.clock())


async def _enqueue(tx: Connection, due: DueOrderMail, letter: OrderLetter) -> None:
    if letter.payer is not None:
        await enqueue_customer_mail(tx, due.scope, letter.payer, letter.message, subject_id=letter.subject_id)
    else:
        organisation_id = due.scope.organisation_id
        await enqueue(tx, organisation_id, letter.admins, letter.message, subject_id=letter.subject_id)
