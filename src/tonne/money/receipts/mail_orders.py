"""Compose the mails about the money of orders and put them into the outbox."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import NamedTuple

from msgspec import Struct

from tonne.money.invoices.card_payment.mail_card_receipt import CardReceipt, compose_card_receipt, read_card_receipt
from tonne.money.invoices.credit_notes.store import wake_notes_any_account
from tonne.money.invoices.follow_up_invoices import read_invoice_again
from tonne.money.invoices.issuing.issue_documents import IssueDocuments
from tonne.money.invoices.mail import InvoiceMail, compose_invoice_mail, write_mail
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.store import lock_invoices_any_account, mark_mailed
from tonne.money.receipts.compose import (
    Parties,
    compose_cancelled,
    compose_receipt,
    compose_refund,
    compose_release,
    read_parties,
)
from tonne.money.receipts.expected_completion import Expectation, expected_completion
from tonne.money.receipts.order_documents import OrderDocument, list_order_documents
from tonne.money.refunds.correct_documents import correct_new_documents
from tonne.money.refunds.model import Refund, RefundState
from tonne.money.refunds.store import list_of_order
from tonne.platform.db.batches import RowJobWithSettings, run_leased
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.outbox import enqueue
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace
from tonne.selling.accounts.customer_mail import enqueue_customer_mail
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_links import LinkedOrder, order_urls
from tonne.selling.orders.mails.order_mail_store import DueOrderMail, OrderMailKind, claim_mails, finish_mails
from tonne.selling.orders.model import Order
from tonne.selling.orders.person_store import find_cancel_reason

# These name the document of the order.
NAMING_DOCUMENTS = {OrderMailKind.RECEIPT, OrderMailKind.REFUND}
ABOUT_INVOICES = {OrderMailKind.INVOICE_RECEIPT, OrderMailKind.INVOICE}


class OrderLetter(NamedTuple):
    """A composed mail. It goes to the payer, or to the admins of the organisation if the payer has no address."""

    message: EmailMessage
    payer: str | None
    admins: list[str]
    subject_id: str
    # Attached for the first time.
    invoices: Sequence[Invoice] = ()


class OrderFacts(Struct, frozen=True):
    """What a mail about one order says. Only the mail of its kind has `expected`, `refund` or `reason`."""

    due: DueOrderMail
    order: Order
    parties: Parties
    url: str | None
    expected: Expectation | None = None
    refund: Refund | None = None
    # Why a paid order was cancelled.
    reason: str | None = None
    documents: Sequence[OrderDocument] = ()


MailFacts = OrderFacts | CardReceipt | InvoiceMail


async def read_facts(
    connection: Connection,
    due: Sequence[DueOrderMail],
    urls: Mapping[str, str | None],
    *,
    settings: Settings,
    now: datetime,
) -> dict[DueOrderMail, MailFacts]:
    """Without the mails that nobody can receive, and those about refunds that failed since."""
    keys = list(dict.fromkeys(each.key for each in due if each.kind not in ABOUT_INVOICES))
    orders = {order.id: order for order in await load_orders(connection, keys)} if keys else {}
    parties = await read_parties(connection, list(orders.values())) if keys else {}
    facts: dict[DueOrderMail, MailFacts] = {}
    for each in due:
        found: MailFacts | None
        if each.kind is OrderMailKind.INVOICE_RECEIPT:
            found = await read_card_receipt(
                connection, each.scope, each.cause, paid_minor=each.amount_minor, paid_at=each.created_at
            )
        elif each.kind is OrderMailKind.INVOICE:
            found = await read_invoice_again(connection, each.cause, settings, now)
        else:
            known = OrderFacts(each, orders[each.order_id], parties[each.order_id], urls[each.order_id])
            found = await _read_more(connection, known, settings=settings, now=now)
        if found is not None and _recipients(found):
            facts[each] = found
    return facts


async def _read_more(
    connection: Connection, known: OrderFacts, *, settings: Settings, now: datetime
) -> OrderFacts | None:
    order = known.order
    match known.due.kind:
        case OrderMailKind.REFUND:
            [refund] = [each for each in await list_of_order(connection, order) if each.id == known.due.cause]
            found = replace(known, refund=refund, documents=await list_order_documents(connection, order))
            return found if refund.state is RefundState.SUCCEEDED else None
        case OrderMailKind.CANCELLED:
            return replace(known, reason=await find_cancel_reason(connection, order.scope, order.id))
        case OrderMailKind.RELEASE:
            return known if order.is_in_window(now) else None
        case _:
            expected = await expected_completion(connection, order, settings=settings, now=now)
            return replace(known, expected=expected, documents=await list_order_documents(connection, order))


def _recipients(found: MailFacts) -> list[str]:
    if not isinstance(found, OrderFacts):
        return found.recipients
    is_receipt = found.due.kind is OrderMailKind.RECEIPT
    # Nobody but the payer gets a receipt.
    return found.parties.recipients if found.parties.payer is not None or not is_receipt else []


async def compose_letter(found: MailFacts, *, settings: Settings, originals: Originals, now: datetime) -> OrderLetter:
    """Takes long, above all the PDF of an invoice: call it outside of a transaction."""
    match found:
        case CardReceipt():
            message = await compose_card_receipt(settings, found, originals)
            invoices = found.not_mailed
            return OrderLetter(message, found.receipt_email, found.payer.admins, found.invoices[0].id, invoices)
        case InvoiceMail():
            message = await write_mail(compose_invoice_mail, settings, found, now, originals)
            return OrderLetter(message, None, found.recipients, found.invoice.id)
        case OrderFacts():
            message = _compose(settings, found)
            return OrderLetter(message, found.parties.payer, found.parties.admins, found.order.id)


def _compose(settings: Settings, found: OrderFacts) -> EmailMessage:
    order, parties, url = found.order, found.parties, found.url
    if found.due.kind is OrderMailKind.RELEASE and order.fulfil_after is not None:
        return compose_release(settings, order, parties, url=url, at=order.fulfil_after)
    if found.refund is not None:
        return compose_refund(settings, order, parties, url=url, refund=found.refund, documents=found.documents)
    if found.expected is not None:
        paid_at = found.due.created_at
        return compose_receipt(
            settings, order, parties, url=url, expected=found.expected, paid_at=paid_at, documents=found.documents
        )
    return compose_cancelled(settings, order, parties, url=url, reason=found.reason)


BATCH = 50
# Long enough to compose a batch and to render its invoices. If the worker dies, another one continues after that.
LEASE = timedelta(minutes=2)


class MailOrders(RowJobWithSettings, frozen=True):
    """A worker job. No transaction is open while a mail is composed.

    Enqueuing a mail and removing its row commit together, and only under the fencing token of the lease: after a crash
    at any step another worker composes the mail again, and a worker whose lease has expired sends nothing.
    """

    originals: Originals

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
            each: await compose_letter(found, settings=self.settings, originals=self.originals, now=self.clock())
            for each, found in facts.items()
        }

    async def send(self, due: Sequence[DueOrderMail], letters: Mapping[DueOrderMail, OrderLetter]) -> None:
        now, invoices = self.clock(), [invoice for letter in letters.values() for invoice in letter.invoices]
        async with self.database.transaction() as tx:
            # Before the mails: who has an invoice mailed again locks them in this order.
            await lock_invoices_any_account(tx, [invoice.id for invoice in invoices])
            for each in await finish_mails(tx, due):
                if each in letters:
                    await _enqueue(tx, each, letters[each])
                    for invoice in letters[each].invoices:
                        await mark_mailed(tx, invoice, now, None)
                        await wake_notes_any_account(tx, invoice.id, now)

    async def _mail(self, due: Sequence[DueOrderMail]) -> None:
        # Another worker would issue them within seconds, but the mail would not wait for it.
        issue = IssueDocuments(self.database, self.clock, self.settings, correct_new_documents)
        await issue.issue_now([each.key for each in due if each.kind in NAMING_DOCUMENTS])
        await self.send(due, await self.compose(due))

    async def _make_links(self, due: Sequence[DueOrderMail]) -> Mapping[str, str | None]:
        if not due:
            return {}
        orders = {each.order_id: LinkedOrder(each.scope, each.order_id) for each in due}
        return await self.database.commit(order_urls, list(orders.values()), settings=self.settings, now=self.clock())


async def _enqueue(tx: Connection, due: DueOrderMail, letter: OrderLetter) -> None:
    if letter.payer is not None:
        await enqueue_customer_mail(tx, due.scope, letter.payer, letter.message, subject_id=letter.subject_id)
    else:
        organisation_id = due.scope.organisation_id
        await enqueue(tx, organisation_id, letter.admins, letter.message, subject_id=letter.subject_id)
