"""Reduce an open invoice by a part of one of its orders, for an operator."""

from datetime import datetime

from tonne.money.invoices.credit_notes.credit_note import CreditCause, CreditNote
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order
from tonne.money.invoices.errors import CreditTooHigh, InvoiceNotOpen
from tonne.money.invoices.issuing.billed_order_store import find_order_keys_any_account, list_unfulfilled_orders
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.settle_invoice import lock_with_orders_any_account
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Actor
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import load_orders


async def correct_invoice(
    tx: Connection,
    invoice: Invoice,
    order_id: str | None,
    amount_minor: int,
    *,
    reason: str,
    actor: Actor,
    now: datetime,
) -> CreditNote:
    """Something must be left unless all orders were fulfilled on credit: others are cancelled instead.

    What was paid is refunded instead.
    """
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    if locked.status is not InvoiceStatus.OPEN:
        raise InvoiceNotOpen(
            f"Invoice {locked.reference} is {locked.status}. Use `tonne order refund` for a paid order."
        )
    keys = [each.key for each in await find_order_keys_any_account(tx, [invoice.id])]
    requested = [key for key in keys if order_id in {None, key.id}]
    if len(requested) != 1:
        raise OrderNotFound(f"Name one of the {len(keys):,} orders of invoice {locked.reference} with --order.")
    [order] = await load_orders(tx, requested)
    leaves_nothing = amount_minor >= locked.due_minor
    if amount_minor > locked.due_minor or (leaves_nothing and await list_unfulfilled_orders(tx, locked)):
        raise CreditTooHigh(f"{locked.due} are due. To credit all of it, cancel the orders with `tonne order cancel`.")
    note = await credit_order(
        tx, order, amount_minor, cause=CreditCause.CORRECTION, reason=reason, actor=actor, now=now
    )
    if note is None:
        raise CreditTooHigh(f"Nothing of order {order.id} is left to credit.")
    return note
