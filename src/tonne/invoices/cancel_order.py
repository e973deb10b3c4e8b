"""Cancel an order: requested by a client or an operator, or because its invoice was not paid in time."""

from datetime import datetime

from tonne.accounts import audit
from tonne.base.actor import Actor
from tonne.base.scope import Scope
from tonne.base.settings import Settings
from tonne.db.pool import Connection
from tonne.gateways.outbox import enqueue
from tonne.invoices import store
from tonne.invoices.mail import compose_cancellation, find_recipients
from tonne.invoices.model import InvoiceStatus
from tonne.orders.errors import OrderNotFound
from tonne.orders.model import Order, OrderStatus
from tonne.orders.move_order import move_order
from tonne.orders.queue import lock_order
from tonne.orders.store import note_cancellation


async def cancel_order_by_id(
    tx: Connection, scope: Scope, order_id: str, *, settings: Settings, actor: Actor, reason: str | None, now: datetime
) -> Order:
    order = await lock_order(tx, scope, order_id)
    if order is None:
        raise OrderNotFound
    reason = (reason or "").strip() or None
    return await cancel_order(tx, order, settings=settings, actor=actor, reason=reason, now=now)


async def cancel_order(
    tx: Connection, order: Order, *, settings: Settings, actor: Actor, reason: str | None, now: datetime
) -> Order:
    """Cancel a locked order and its open invoice, and notify everyone who was mailed that invoice.

    Raises TransitionInvalid if the order can no longer be cancelled. Call it last in the transaction. If a payment
    races it, exactly one of the two wins; a charge that is captured afterwards is refunded when it is settled.
    """
    await _notify_recipients(tx, order, settings, reason)
    await note_cancellation(tx, order, actor=actor, reason=reason)
    has_open_invoice = await store.close_invoice(tx, order.key, InvoiceStatus.CANCELLED, actor=actor, now=now)
    actions = ["order.cancelled", "invoice.cancelled"] if has_open_invoice else ["order.cancelled"]
    entries = [
        audit.Entry(
            action=action,
            subject_id=order.id,
            organisation_id=order.scope.organisation_id,
            mode=order.scope.mode,
            before={"status": order.status if action == "order.cancelled" else InvoiceStatus.OPEN},
            after={"status": OrderStatus.CANCELLED},
            details={"reason": reason},
        )
        for action in actions
    ]
    await audit.record_all(tx, entries, actor=actor, at=now)
    return await move_order(tx, order, OrderStatus.CANCELLED, now)


async def _notify_recipients(tx: Connection, order: Order, settings: Settings, reason: str | None) -> None:
    organisation_id = order.scope.organisation_id
    invoice = await store.find_invoice(tx, order.scope, order.id)
    if invoice is None or invoice.status is not InvoiceStatus.OPEN or invoice.mailed_at is None:
        return
    if recipients := await find_recipients(tx, organisation_id):
        message = compose_cancellation(settings, recipients, invoice.read_record(), reason)
        await enqueue(tx, organisation_id, recipients, message)
