"""Cancel an order: requested by a client or an operator, or because its invoice was not paid in time."""

from dataclasses import replace
from datetime import datetime

from tonne.accounts import audit
from tonne.base.actor import Actor, ActorKind
from tonne.base.scope import Scope
from tonne.base.settings import Settings
from tonne.db.pool import Connection
from tonne.gateways.outbox import enqueue
from tonne.invoices import store
from tonne.invoices.billed_order_store import mark_cancelled
from tonne.invoices.mail import compose_cancellation, find_recipients
from tonne.invoices.model import InvoiceStatus
from tonne.orders.errors import OrderNotFound, TransitionInvalid
from tonne.orders.model import CancellationReason, Order, OrderStatus
from tonne.orders.move_order import move_order
from tonne.orders.queue import lock_order
from tonne.orders.store import note_cancellation

_CODES = {
    ActorKind.KEY: CancellationReason.REQUESTED_BY_CLIENT,
    ActorKind.CLI: CancellationReason.REQUESTED_BY_OPERATOR,
    ActorKind.SYSTEM: CancellationReason.REQUESTED_BY_OPERATOR,
    ActorKind.PAYER: CancellationReason.CHECKOUT_REPLACED,
}


async def cancel_order_by_id(
    tx: Connection, scope: Scope, order_id: str, *, settings: Settings, actor: Actor, reason: str | None, now: datetime
) -> Order:
    order = await lock_order(tx, scope, order_id)
    if order is None:
        raise OrderNotFound
    reason = (reason or "").strip() or None
    return await cancel_order(tx, order, settings=settings, actor=actor, reason=reason, now=now)


async def cancel_order(
    tx: Connection,
    order: Order,
    *,
    settings: Settings,
    actor: Actor,
    reason: str | None,
    now: datetime,
    code: CancellationReason | None = None,
) -> Order:
    """Cancel a locked order and its open invoice, and notify everyone who was mailed that invoice.

    `reason` is for people; `code`, which clients see, follows from the actor unless a job gives one. Raises
    TransitionInvalid if the order can no longer be cancelled. Call it last in the transaction. If a payment
    races it, exactly one of the two wins; a charge that is captured afterwards is refunded when it is settled.
    """
    if order.status is OrderStatus.PAID:
        raise TransitionInvalid("A paid order can only be cancelled with a refund.")
    await _notify_recipients(tx, order, settings, reason)
    await note_cancellation(tx, order, actor=actor, reason=reason)
    entries = [
        audit.Entry(
            action="order.cancelled",
            subject_id=order.id,
            organisation_id=order.scope.organisation_id,
            mode=order.scope.mode,
            before={"status": order.status},
            after={"status": OrderStatus.CANCELLED},
            details={"reason": reason},
        ),
        *await _take_off_invoice(tx, order, actor=actor, reason=reason, now=now),
    ]
    await audit.record_all(tx, entries, actor=actor, at=now)
    order = replace(order, cancellation_reason=code or _CODES[actor.kind])
    return await move_order(tx, order, OrderStatus.CANCELLED, now)


async def _take_off_invoice(
    tx: Connection, order: Order, *, actor: Actor, reason: str | None, now: datetime
) -> list[audit.Entry]:
    """Credit the order on its open invoice. The invoice is cancelled once all its orders are."""
    found = await store.find_invoice(tx, order.scope, order.id)
    if found is None or order.priced is None:
        return []
    [invoice] = await store.lock_invoices_any_account(tx, [found.id])
    if invoice.status is not InvoiceStatus.OPEN:
        return []
    await mark_cancelled(tx, invoice, [order.key])
    status = await store.add_credit(tx, invoice, order.priced.total_cost_minor, actor=actor, now=now)
    return [
        audit.Entry(
            action="invoice.cancelled" if status is InvoiceStatus.CANCELLED else "invoice.credited",
            subject_id=invoice.id,
            organisation_id=invoice.organisation_id,
            mode=invoice.mode,
            before={"status": invoice.status, "due_minor": invoice.due_minor},
            after={"status": status, "due_minor": invoice.due_minor - order.priced.total_cost_minor},
            details={"reference": invoice.reference, "order_id": order.id, "reason": reason},
        )
    ]


async def _notify_recipients(tx: Connection, order: Order, settings: Settings, reason: str | None) -> None:
    organisation_id = order.scope.organisation_id
    invoice = await store.find_invoice(tx, order.scope, order.id)
    if invoice is None or invoice.status is not InvoiceStatus.OPEN or invoice.mailed_at is None:
        return
    if recipients := await find_recipients(tx, organisation_id):
        message = compose_cancellation(settings, recipients, invoice.read_record(), reason)
        await enqueue(tx, organisation_id, recipients, message)
