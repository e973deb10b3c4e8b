"""The money of an invoice is there: it is paid, once, and its order goes on."""

from datetime import datetime

from tonne.accounts import audit
from tonne.base.scope import Scope
from tonne.db.pool import Connection
from tonne.invoices import store as invoice_store
from tonne.invoices.errors import InvoiceNotFound, InvoiceNotOpen
from tonne.invoices.model import Invoice, InvoiceStatus
from tonne.orders.errors import OrderNotFound
from tonne.orders.model import Order
from tonne.orders.move_order import mark_paid
from tonne.orders.queue import lock_order


async def settle_invoice(
    tx: Connection, scope: Scope, order_id: str, *, actor: str, now: datetime, note: str = ""
) -> Order:
    """Settle the invoice of an order. Call it last in the transaction."""
    order = await lock_order(tx, scope, order_id)
    if order is None:
        raise OrderNotFound
    invoice = await invoice_store.find_invoice(tx, scope, order_id)
    if invoice is None:
        raise InvoiceNotFound
    await mark_invoice_paid(tx, invoice, actor=actor, now=now, note=note)
    return await mark_paid(tx, order, now)


async def mark_invoice_paid(tx: Connection, invoice: Invoice, *, actor: str, now: datetime, note: str) -> None:
    """Without its order, whose row the caller holds, and moves in the same transaction."""
    scope = invoice.scope
    if not await invoice_store.mark_paid(tx, scope, invoice.order_id, actor=actor, now=now):
        raise _not_open(invoice)
    await audit.record(
        tx,
        scope.organisation_id,
        actor=actor,
        action="invoice.settled",
        subject_id=invoice.order_id,
        at=now,
        reference=invoice.reference,
        total=invoice.total,
        note=note,
    )


def _not_open(invoice: Invoice) -> InvoiceNotOpen:
    if invoice.status is InvoiceStatus.CANCELLED:
        return InvoiceNotOpen(f"Invoice {invoice.reference} is cancelled, and its order with it: refund what was paid.")
    return InvoiceNotOpen(f"Invoice {invoice.reference} is paid already: refund what was paid a second time.")
