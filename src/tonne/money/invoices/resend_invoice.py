"""Mail an invoice again, for an operator."""

from datetime import datetime
from email.message import EmailMessage

from msgspec import Struct

from tonne.money.invoices import store
from tonne.money.invoices.documents.annex import Annex, load_annex
from tonne.money.invoices.documents.record import Remaining
from tonne.money.invoices.documents.render_invoice import RenderInvoice
from tonne.money.invoices.errors import InvoiceNotOpen, InvoiceWithoutRecipient
from tonne.money.invoices.issuing.billed_order_store import list_billed_orders, list_unfulfilled_orders
from tonne.money.invoices.mail import compose_invoice_mail, find_recipients, write_closed_mail, write_mail
from tonne.money.invoices.model import FollowUpSchedule, Invoice
from tonne.money.invoices.remaining import find_remaining
from tonne.platform.db.pool import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.actor import Actor
from tonne.platform.values.replace import replace
from tonne.platform.values.scope import Scope
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails


async def resend_invoice(
    tx: Connection, invoice: Invoice, *, settings: Settings, actor: Actor, now: datetime
) -> list[str]:
    """Have a worker mail it, again or for the first time. Returns the recipients, the admins of the organisation.

    The mail of a paid or cancelled invoice does not ask for money.
    """
    organisation_id = invoice.organisation_id
    recipients = await find_recipients(tx, organisation_id)
    if not recipients:
        raise InvoiceWithoutRecipient(f"{organisation_id} has no admin. Add one with `tonne org add-admin`.")
    if invoice.closing is None and invoice.mailed_at is None:
        await _mark_mailed(tx, invoice, settings, now)
    [first] = await list_billed_orders(tx, invoice, 1)
    scope = Scope(organisation_id, first.account_id, invoice.mode)
    row = OrderMailRow(scope, first.order_id, OrderMailKind.INVOICE, invoice.id, invoice.total_minor)
    await add_mails(tx, [row], now)
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


async def _mark_mailed(tx: Connection, invoice: Invoice, settings: Settings, now: datetime) -> None:
    """For the first mail of an invoice, which `follow_up_invoices` must not send as well."""
    mailed = replace(invoice, mailed_at=now)
    _, due_at = FollowUpSchedule.from_settings(settings).next_step(mailed, now, settles_itself=False)
    if not await store.mark_held_mailed(tx, invoice, now, due_at):
        raise InvoiceNotOpen(
            f"Invoice {invoice.reference} is about to be mailed. Check that `tonne worker` is running."
        )


class InvoiceAgain(Struct, frozen=True):
    """What the mail says."""

    invoice: Invoice
    recipients: list[str]
    annex: Annex
    remaining: Remaining | None
    is_fulfilled: bool


async def read_invoice_again(connection: Connection, invoice_id: str) -> InvoiceAgain:
    [invoice] = await store.find_invoices_any_account(connection, [invoice_id])
    return InvoiceAgain(
        invoice,
        await find_recipients(connection, invoice.organisation_id),
        await load_annex(connection, invoice),
        await find_remaining(connection, invoice),
        not await list_unfulfilled_orders(connection, invoice),
    )


async def compose_invoice_again(
    settings: Settings, found: InvoiceAgain, *, render: RenderInvoice, now: datetime
) -> EmailMessage:
    """Renders and signs the PDF: do not hold a lock meanwhile."""
    invoice, closing = found.invoice, found.invoice.closing
    if closing is not None:
        return await write_closed_mail(settings, found.recipients, invoice, closing, annex=found.annex, render=render)
    return await write_mail(
        compose_invoice_mail,
        settings,
        found.recipients,
        invoice,
        now,
        remaining=found.remaining,
        annex=found.annex,
        is_fulfilled=found.is_fulfilled,
        render=render,
    )
