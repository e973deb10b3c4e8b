"""An order is called off: by the client, by an operator, or because its invoice was not paid in time."""

from datetime import datetime

from tonne.accounts import audit
from tonne.db.pool import Connection
from tonne.orders.model import Order, OrderStatus
from tonne.orders.move_order import move_order

NOTE_CANCELLING = "UPDATE orders SET cancelled_by = $3, cancel_reason = $4 WHERE account_id = $1 AND id = $2"
CANCEL_INVOICE = """
UPDATE invoices SET status = 'cancelled', settled_at = $3, settled_by = $4, next_attempt_at = NULL
WHERE account_id = $1 AND order_id = $2 AND status = 'open'
"""


async def cancel_order(tx: Connection, order: Order, *, actor: str, reason: str | None, now: datetime) -> Order:
    """Refuses an order that is past being called off. Call it last in the transaction, with the order's row held.

    A payment that comes at the same time either was there first, and then this is refused, or finds the order
    cancelled: a charge that is captured after all is refunded when it is settled.
    """
    account_id, order_id = order.scope.account_id, order.id
    await tx.execute(NOTE_CANCELLING, account_id, order_id, actor, reason)
    await tx.execute(CANCEL_INVOICE, account_id, order_id, now, actor)
    await audit.record(
        tx,
        order.scope.organisation_id,
        actor=actor,
        action="order.cancelled",
        subject_id=order_id,
        at=now,
        reason=reason,
        status=order.status,
    )
    return await move_order(tx, order, OrderStatus.CANCELLED, now)
