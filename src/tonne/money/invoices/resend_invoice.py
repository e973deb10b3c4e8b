"""Mail an invoice again, for an operator."""

from datetime import datetime

from tonne.money.invoices import store
from tonne.money.invoices.documents.annex import load_annex
from tonne.money.invoices.documents.render_invoice import RenderInvoice
from tonne.money.invoices.errors import InvoiceNotOpen, InvoiceWithoutRecipient
from tonne.money.invoices.issuing.billed_order_store import list_unfulfilled_orders
from tonne.money.invoices.mail import compose_invoice_mail, find_recipients, write_closed_mail, write_mail
from tonne.money.invoices.model import FollowUpSchedule, Invoice
from tonne.money.invoices.remaining import find_remaining
from tonne.platform.db.pool import Connection
from tonne.platform.documents.mail.outbox import enqueue
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.actor import Actor
from tonne.platform.values.replace import replace


async def resend_invoice(
    tx: Connection, invoice: Invoice, *, render: RenderInvoice, settings: Settings, actor: Actor, now: datetime
) -> list[str]:
    """Enqueue the mail, again or for the first time, and return its recipients, the admins of the organisation.

    The mail of a paid or cancelled invoice does not ask for money.
    """
    closing = invoice.closing
    organisation_id = invoice.organisation_id
    recipients = await find_recipients(tx, organisation_id)
    if not recipients:
        raise InvoiceWithoutRecipient(f"{organisation_id} has no admin. Add one with `tonne org add-admin`.")
    annex = await load_annex(tx, invoice)
    if closing is None:
        if invoice.mailed_at is None:
            invoice = await _mark_mailed(tx, invoice, settings, now)
        remaining = await find_remaining(tx, invoice)
        message = await write_mail(
            compose_invoice_mail,
            settings,
            recipients,
            invoice,
            now,
            remaining=remaining,
            annex=annex,
            is_fulfilled=not await list_unfulfilled_orders(tx, invoice),
            render=render,
        )
    else:
        message = await write_closed_mail(settings, recipients, invoice, closing, annex=annex, render=render)
    await enqueue(tx, organisation_id, recipients, message, subject_id=invoice.id)
    await audit.record(
        tx,
        organisation_id,
        "invoice.resent",
        actor=actor,
        subject_id=invoice.id,
        at=now,
        mode=invoice.mode,
        reference=invoice.reference,
        recipients=recipients,
    )
    return recipients


async def _mark_mailed(tx: Connection, invoice: Invoice, settings: Settings, now: datetime) -> Invoice:
    """For the first mail of an invoice, which the worker must not send as well."""
    mailed = replace(invoice, mailed_at=now)
    _, due_at = FollowUpSchedule.from_settings(settings).next_step(mailed, now, settles_itself=False)
    if not await store.mark_held_mailed(tx, invoice, now, due_at):
        raise InvoiceNotOpen(
            f"Invoice {invoice.reference} is about to be mailed. Check that `tonne worker` is running."
        )
    return mailed
