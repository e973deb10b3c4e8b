"""Cancel an order: requested by a client or an operator, or because its invoice was not paid in time."""

from msgspec import structs

from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import ActorKind, By
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.model import CancellationReason, Order, OrderStatus
from tonne.selling.orders.move_order import cancellation_entry, move_order
from tonne.selling.orders.store import note_cancellation

_CODES = {
    ActorKind.KEY: CancellationReason.REQUESTED_BY_CLIENT,
    ActorKind.CLI: CancellationReason.REQUESTED_BY_OPERATOR,
    ActorKind.SYSTEM: CancellationReason.REQUESTED_BY_OPERATOR,
    ActorKind.PAYER: CancellationReason.CHECKOUT_REPLACED,
    # An operator in the dashboard. For a member of the organisation the caller gives the code.
    ActorKind.USER: CancellationReason.REQUESTED_BY_OPERATOR,
}


async def cancel_order(
    tx: Connection,
    order: Order,
    *,
    by: By,
    reason: str | None,
    code: CancellationReason | None = None,
) -> Order:
    """Cancel a locked order, with a credit note if it was billed. A worker mails the note to those who got the invoice.

    `reason` is for people; `code`, which clients see, follows from the actor unless a job gives one. Raises
    TransitionInvalid if the order can no longer be cancelled. Call it last in the transaction. If a payment
    races it, exactly one of the two wins; a charge that is captured afterwards is refunded when it is settled.
    """
    if order.status is OrderStatus.PAID:
        raise TransitionInvalid("A paid order can only be cancelled with a refund.")
    await note_cancellation(tx, order, actor=by.actor, reason=reason)
    await audit.record_all(tx, [cancellation_entry(order, reason=reason)], by=by)
    await credit_order(tx, order, cause=CreditCause.CANCELLATION, reason=reason, by=by)
    order = structs.replace(order, cancellation_reason=code or _CODES[by.actor.kind])
    return await move_order(tx, order, OrderStatus.CANCELLED, by.at)
