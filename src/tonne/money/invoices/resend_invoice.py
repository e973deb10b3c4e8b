"""Mail an invoice again, for an operator."""

from datetime import datetime
from typing import Any

from tonne.money.invoices import store
from tonne.money.invoices.errors import InvoiceNotOpen, InvoiceWithoutRecipient
from tonne.money.invoices.issuing.billed_order_store import list_billed_orders
from tonne.money.invoices.mail import InvoiceMail, find_recipients, read_invoice_mail
from tonne.money.invoices.model import FollowUpSchedule, Invoice
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Scope
from tonne.platform.values.replace import replace
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
    details: dict[str, Any] = {"reference": invoice.reference, "recipients": recipients}
    await audit.record(tx, invoice, "invoice.resent", actor=actor, at=now, subject_id=invoice.id, **details)
    return recipients


async def _mark_mailed(tx: Connection, invoice: Invoice, settings: Settings, now: datetime) -> None:
    """For the first mail of an invoice, which `follow_up_invoices` must not send as well."""
    mailed = replace(invoice, mailed_at=now)
    _, due_at = FollowUpSchedule.from_settings(settings).next_step(mailed, now, settles_itself=False)
    if not await store.mark_held_mailed(tx, invoice, now, due_at):
        raise InvoiceNotOpen(
            f"Invoice {invoice.reference} is about to be mailed. Check that `tonne worker` is running."
        )


async def read_invoice_again(connection: Connection, invoice_id: str) -> InvoiceMail:
    """What the mail says."""
    [invoice] = await store.find_invoices_any_account(connection, [invoice_id])
    return await read_invoice_mail(connection, invoice)
