"""Cancelling an order: by its client, by the operator, or because its invoice was not paid in time."""

from datetime import datetime

from tonne.accounts import audit
from tonne.base.settings import Settings
from tonne.db.pool import Connection
from tonne.gateways.outbox import enqueue
from tonne.invoices import store
from tonne.invoices.mail import compose_cancellation, usable
from tonne.invoices.model import InvoiceStatus
from tonne.orders.model import Order, OrderStatus
from tonne.orders.move_order import move_order
from tonne.orders.store import note_cancellation


async def cancel_order(
    tx: Connection, order: Order, *, settings: Settings, actor: str, reason: str | None, now: datetime
) -> Order:
    """Cancel the order and its open invoice, and tell everyone who was mailed that invoice.

    Raises TransitionInvalid when the order can no longer be cancelled. Call it last in the transaction, with the
    order's row locked. If a payment races it, exactly one of the two wins; a charge that is captured afterwards is
    refunded when it is settled.
    """
    await _tell_recipients(tx, order, settings, reason)
    await note_cancellation(tx, order, actor=actor, reason=reason)
    await store.cancel_invoice(tx, order, actor=actor, now=now)
    await audit.record(
        tx,
        order.scope.organisation_id,
        actor=actor,
        action="order.cancelled",
        subject_id=order.id,
        at=now,
        reason=reason,
        status=order.status,
    )
    return await move_order(tx, order, OrderStatus.CANCELLED, now)


async def _tell_recipients(tx: Connection, order: Order, settings: Settings, reason: str | None) -> None:
    invoice = await store.find_invoice(tx, order.scope, order.id)
    if invoice is None or invoice.status is not InvoiceStatus.OPEN or invoice.mailed_at is None:
        return
    customer = await store.find_customer(tx, order.scope.organisation_id)
    if recipients := usable(customer.admins):
        message = compose_cancellation(settings, recipients, invoice.read_record(), reason)
        await enqueue(tx, order.scope.organisation_id, recipients, message)
