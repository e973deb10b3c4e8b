"""Follow up open invoices: mail them, remind of them, and cancel the order if they stay unpaid.

An operator can mail an invoice again.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from tonne.money.cards.invoice_charge_store import is_being_charged_any_account
from tonne.money.invoices import store
from tonne.money.invoices import store as invoice_store
from tonne.money.invoices.credit_notes.cancel_invoice import cancel_invoice
from tonne.money.invoices.credit_notes.store import wake_notes_any_account
from tonne.money.invoices.errors import InvoiceNotOpen, InvoiceWithoutRecipient
from tonne.money.invoices.invoice_events import OVERDUE, record_invoices
from tonne.money.invoices.issuing.billed_order_store import list_billed_orders
from tonne.money.invoices.mail import (
    ComposeMail,
    InvoiceMail,
    compose_invoice_mail,
    compose_reminder,
    day_text,
    find_recipients,
    read_invoice_mail,
    write_mail,
)
from tonne.money.invoices.model import FollowUpSchedule, Invoice, InvoiceStep
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.settle_invoice import is_covered, settle_if_covered
from tonne.platform.db.batches import RowJobWithSettings, run_each
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.outbox import Urgency, enqueue
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Mode, Scope, job_actor, replace
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails

BATCH = 10
# Long enough to render and enqueue a batch. If the worker dies, another one continues after that.
LEASE = timedelta(minutes=2)
# How soon an invoice is mailed after its organisation gets an admin, or after a card was not charged for it.
MAIL_RETRY = timedelta(minutes=5)
ACTOR = job_actor("follow_up_invoices")

_log = structlog.get_logger()
_Mark = Callable[[Connection, Invoice, datetime, datetime | None], Awaitable[bool]]


class FollowUpInvoices(RowJobWithSettings, frozen=True):
    originals: Originals

    async def run_once(self) -> bool:
        """Take the next step of a batch of due invoices; false if none is due.

        Every step ends in a short transaction with a compare-and-set: a crash before it repeats the step, and if two
        workers hold the same invoice, one of them takes the step.
        """
        now = self.clock()
        claimed = await self.database.run(invoice_store.claim_due, now, now + LEASE, BATCH)
        return await run_each(
            claimed,
            self._take_step,
            failure_event="invoice_step_failed",
            describe=lambda invoice: {"reference": invoice.reference},
        )

    async def _take_step(self, invoice: Invoice) -> None:
        now, schedule = self.clock(), FollowUpSchedule.from_settings(self.settings)
        async with self.database.connection() as connection:
            settles_itself = await is_covered(connection, invoice)
            if invoice.is_written_off and not settles_itself:
                await invoice_store.postpone(connection, invoice, None)
                return
            step, due_at = schedule.next_step(invoice, now, settles_itself=settles_itself)
            if due_at is None or due_at > now:
                await invoice_store.postpone(connection, invoice, due_at)
                return
            if step is InvoiceStep.MAIL and await _waits_for_receipt(connection, invoice, now):
                await invoice_store.postpone(connection, invoice, now + MAIL_RETRY)
                return
        if step is InvoiceStep.MAIL:
            mailed = replace(invoice, mailed_at=now)
            _, due_at = schedule.next_step(mailed, now, settles_itself=settles_itself)
            await self._send(mailed, compose_invoice_mail, invoice_store.mark_mailed, due_at)
        elif step is InvoiceStep.REMIND:
            reminded = replace(invoice, reminded_at=now)
            _, due_at = schedule.next_step(reminded, now, settles_itself=False)
            await self._send(reminded, compose_reminder, invoice_store.mark_reminded, due_at)
        elif step is InvoiceStep.SETTLE:
            await self.database.commit(settle_if_covered, invoice, by=ACTOR.at(now))
        else:
            await self._cancel(invoice, now)

    async def _send(self, invoice: Invoice, compose: ComposeMail, mark: _Mark, due_at: datetime | None) -> None:
        """Without a recipient a live invoice waits, and its deadlines with it: nobody would know of them."""
        now, organisation_id = self.clock(), invoice.organisation_id
        async with self.database.connection() as connection:
            mail = await read_invoice_mail(connection, invoice, self.settings, now)
            if not mail.recipients:
                _log.warning("invoice_without_recipient", reference=invoice.reference, organisation_id=organisation_id)
                if invoice.mode is Mode.LIVE:
                    until = now + MAIL_RETRY
                    await invoice_store.postpone(connection, invoice, until)
                    return
        # If a card has paid it already, the mail says so.
        message = await write_mail(compose, self.settings, mail, now, self.originals) if mail.recipients else None
        async with self.database.transaction() as tx:
            if not await mark(tx, invoice, now, due_at):
                return
            await wake_notes_any_account(tx, invoice.id, now)
            if invoice.reminded_at is not None and invoice.closing is None:
                await record_invoices(tx, [invoice], OVERDUE, now)
            if message is not None:
                await enqueue(
                    tx, organisation_id, mail.recipients, message, subject_id=invoice.id, urgency=Urgency.BULK
                )

    async def _cancel(self, invoice: Invoice, now: datetime) -> None:
        today = day_text(now.astimezone(UTC).date())
        reason = f"Invoice {invoice.reference} was due on {day_text(invoice.due_on)} and was not paid by {today}."
        await self.database.commit(cancel_invoice, invoice, by=ACTOR.at(now), reason=reason)


async def _waits_for_receipt(connection: Connection, invoice: Invoice, now: datetime) -> bool:
    """Whether a receipt will have the invoice attached: otherwise the payer would be told of a charge twice."""
    if invoice.settled_at is not None:
        return now < invoice.settled_at + MAIL_RETRY
    return await is_being_charged_any_account(connection, invoice.id, now + MAIL_RETRY)


async def resend_invoice(tx: Connection, invoice: Invoice, *, settings: Settings, by: By) -> list[str]:
    """Have a worker mail it, again or for the first time. Returns the recipients, the admins of the organisation.

    The mail of a paid or cancelled invoice does not ask for money.
    """
    organisation_id = invoice.organisation_id
    recipients = await find_recipients(tx, organisation_id)
    if not recipients:
        raise InvoiceWithoutRecipient(f"{organisation_id} has no admin. Add one with `tonne org add-admin`.")
    if invoice.closing is None and invoice.mailed_at is None:
        await _mark_mailed(tx, invoice, settings, by.at)
    [first] = await list_billed_orders(tx, invoice, 1)
    scope = Scope(organisation_id, first.account_id, invoice.mode)
    row = OrderMailRow(scope, first.order_id, OrderMailKind.INVOICE, invoice.id, invoice.total_minor)
    await add_mails(tx, [row], by.at)
    details: dict[str, Any] = {"reference": invoice.reference, "recipients": recipients}
    await audit.record(tx, invoice, "invoice.resent", by=by, subject_id=invoice.id, **details)
    return recipients


async def _mark_mailed(tx: Connection, invoice: Invoice, settings: Settings, now: datetime) -> None:
    """For the first mail of an invoice, which `follow_up_invoices` must not send as well."""
    mailed = replace(invoice, mailed_at=now)
    _, due_at = FollowUpSchedule.from_settings(settings).next_step(mailed, now, settles_itself=False)
    if not await store.mark_held_mailed(tx, invoice, now, due_at):
        raise InvoiceNotOpen(
            f"Invoice {invoice.reference} is about to be mailed. Check that `tonne worker` is running."
        )


async def read_invoice_again(connection: Connection, invoice_id: str, settings: Settings, now: datetime) -> InvoiceMail:
    """What the mail says."""
    [invoice] = await store.find_invoices_any_account(connection, [invoice_id])
    return await read_invoice_mail(connection, invoice, settings, now)
