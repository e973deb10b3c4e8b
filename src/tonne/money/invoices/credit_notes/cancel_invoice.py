"""Cancel an unpaid invoice with its orders that were not fulfilled on credit, or reduce it by a part of an order."""

import structlog
from msgspec import structs

from tonne.money.invoices.credit_notes.credit_note import CreditCause, CreditNote
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order, credit_orders
from tonne.money.invoices.errors import CreditTooHigh, InvoiceNotOpen
from tonne.money.invoices.issuing.billed_order_store import find_order_keys_any_account, list_unfulfilled_orders
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.settle_invoice import CHUNK, lock_with_orders_any_account
from tonne.money.invoices.store import postpone
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import CancellationReason, OrderStatus
from tonne.selling.orders.move_order import Transitions, cancellation_entry, move_orders
from tonne.selling.orders.store import note_cancellation

_log = structlog.get_logger()


async def cancel_invoice(
    tx: Connection,
    invoice: Invoice,
    *,
    by: By,
    reason: str,
    code: CancellationReason = CancellationReason.INVOICE_UNPAID,
) -> None:
    """Issue one credit note for its orders, and cancel them. Does nothing if it is no longer open.

    Orders that were fulfilled on credit are owed: they stay, and the invoice stays open. If it has no others, no worker
    looks at it any more, and the doctor names it. Call it last in the transaction.
    """
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    if locked.status is not InvoiceStatus.OPEN:
        return
    keys = await list_unfulfilled_orders(tx, locked)
    if not keys:
        _log.warning("fulfilled_orders_not_paid", reference=locked.reference, organisation_id=locked.organisation_id)
        await postpone(tx, locked, None)
        return
    cause = CreditCause.CANCELLATION
    await credit_orders(tx, locked, set(keys), cause=cause, reason=reason, by=by)
    for start in range(0, len(keys), CHUNK):
        orders = await load_orders(tx, keys[start : start + CHUNK])
        for order in orders:
            await note_cancellation(tx, order, actor=by.actor, reason=reason)
        await audit.record_all(tx, [cancellation_entry(order, reason=reason) for order in orders], by=by)
        moved = [structs.replace(order, status=OrderStatus.CANCELLED, cancellation_reason=code) for order in orders]
        await move_orders(tx, [Transitions(order, [to]) for order, to in zip(orders, moved, strict=True)], by.at)


async def correct_invoice(
    tx: Connection,
    invoice: Invoice,
    order_id: str | None,
    amount_minor: int,
    *,
    reason: str,
    by: By,
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
    note = await credit_order(tx, order, amount_minor, cause=CreditCause.CORRECTION, reason=reason, by=by)
    if note is None:
        raise CreditTooHigh(f"Nothing of order {order.id} is left to credit.")
    return note
