"""Settle an invoice: it is marked as paid, once, and so is its order."""

from datetime import datetime

from tonne.accounts import audit
from tonne.accounts.model import PaymentMethod
from tonne.base.actor import Actor
from tonne.base.scope import Scope
from tonne.base.settings import Settings
from tonne.db.pool import Connection
from tonne.invoices import store as invoice_store
from tonne.invoices.errors import InvoiceNotFound, InvoiceNotOpen, OrderPaidByCard
from tonne.invoices.issue_invoices import issue_invoices
from tonne.invoices.model import Invoice, InvoiceStatus
from tonne.orders.errors import OrderNotFound
from tonne.orders.model import Order, OrderStatus
from tonne.orders.move_order import mark_paid
from tonne.orders.queue import lock_order


async def settle_invoice(
    tx: Connection, scope: Scope, order_id: str, *, actor: Actor, now: datetime, note: str = ""
) -> Order:
    """Settle the invoice of an order. Call it last in the transaction."""
    order = await _lock(tx, scope, order_id)
    invoice = await invoice_store.find_invoice(tx, scope, order_id)
    if invoice is None:
        raise InvoiceNotFound
    entry = await mark_invoice_paid(tx, invoice, actor=actor, now=now, note=note)
    await audit.record_all(tx, [entry], actor=actor, at=now)
    return await mark_paid(tx, order, now)


async def settle_test_invoice(
    tx: Connection, scope: Scope, order_id: str, *, settings: Settings, actor: Actor, now: datetime
) -> Order:
    """Test helper: issue the invoice of a placed order if necessary, and settle it."""
    order = await _lock(tx, scope, order_id)
    if order.payment_method is not PaymentMethod.INVOICE:
        raise OrderPaidByCard
    if order.status is not OrderStatus.PLACED:
        raise InvoiceNotOpen(f"The order is {order.status}. Only a placed order has an open invoice.")
    await issue_invoices(tx, [order], settings, now)
    if order.priced is not None and order.priced.total_cost_minor == 0:
        # Issuing has marked it as paid.
        return await _lock(tx, scope, order_id)
    return await settle_invoice(tx, scope, order_id, actor=actor, now=now)


async def mark_invoice_paid(tx: Connection, invoice: Invoice, *, actor: Actor, now: datetime, note: str) -> audit.Entry:
    """Without its order, which the caller has locked and moves in the same transaction.

    Returns the entry for the audit log, so that a bank statement can write those of all its lines at once.
    """
    if not await invoice_store.close_invoice(tx, invoice.order_key, InvoiceStatus.PAID, actor=actor, now=now):
        if invoice.status is InvoiceStatus.CANCELLED:
            raise InvoiceNotOpen(f"Invoice {invoice.reference} and its order are cancelled. Refund the payment.")
        raise InvoiceNotOpen(f"Invoice {invoice.reference} is already paid. Refund the second payment.")
    return audit.Entry(
        action="invoice.settled",
        subject_id=invoice.order_id,
        organisation_id=invoice.scope.organisation_id,
        mode=invoice.scope.mode,
        before={"status": InvoiceStatus.OPEN},
        after={"status": InvoiceStatus.PAID},
        details={"reference": invoice.reference, "total": invoice.total, "note": note},
    )


async def _lock(tx: Connection, scope: Scope, order_id: str) -> Order:
    order = await lock_order(tx, scope, order_id)
    if order is None:
        raise OrderNotFound
    return order
