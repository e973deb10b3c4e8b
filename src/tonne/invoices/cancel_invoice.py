"""Cancel an unpaid invoice with all its orders."""

from dataclasses import replace
from datetime import datetime, timedelta

from tonne.accounts import audit
from tonne.base.actor import Actor
from tonne.db.pool import Connection
from tonne.invoices.billed_order_store import find_order_keys_any_account
from tonne.invoices.cancel_order import cancellation_entry
from tonne.invoices.credit_note import CreditCause
from tonne.invoices.issue_credit_note import credit_rest_of_invoice
from tonne.invoices.model import Invoice, InvoiceStatus
from tonne.invoices.settle_invoice import CHUNK, lock_with_orders_any_account
from tonne.invoices.store import has_fulfilled_orders, postpone
from tonne.orders.load import load_orders
from tonne.orders.model import CancellationReason, OrderStatus
from tonne.orders.move_order import Transitions, move_orders
from tonne.orders.store import note_cancellation

# How often a worker looks at an overdue invoice that is not cancelled.
OVERDUE_RETRY = timedelta(days=7)


async def cancel_invoice(tx: Connection, invoice: Invoice, *, actor: Actor, reason: str, now: datetime) -> None:
    """Issue one credit note for all its orders, and cancel them. Does nothing if it is no longer open.

    An invoice with orders that were fulfilled on credit stays open: they are owed. Call it last in the transaction.
    """
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    if locked.status is not InvoiceStatus.OPEN:
        return
    keys = [each.key for each in await find_order_keys_any_account(tx, [invoice.id])]
    if await has_fulfilled_orders(tx, locked):
        await postpone(tx, locked, now + OVERDUE_RETRY)
        return
    await credit_rest_of_invoice(tx, locked, cause=CreditCause.CANCELLATION, reason=reason, actor=actor, now=now)
    for start in range(0, len(keys), CHUNK):
        orders = await load_orders(tx, keys[start : start + CHUNK])
        for order in orders:
            await note_cancellation(tx, order, actor=actor, reason=reason)
        await audit.record_all(tx, [cancellation_entry(order, reason) for order in orders], actor=actor, at=now)
        code = CancellationReason.INVOICE_UNPAID
        moved = [replace(order, status=OrderStatus.CANCELLED, cancellation_reason=code) for order in orders]
        await move_orders(tx, [Transitions(order, [to]) for order, to in zip(orders, moved, strict=True)], now)
