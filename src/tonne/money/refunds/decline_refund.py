"""Decline a refund that waits for a second person's approval."""

from datetime import datetime

from tonne.money.refunds.approve_refund import lock_refund
from tonne.money.refunds.errors import RefundNotWaiting, RefundOwed
from tonne.money.refunds.model import Refund, RefundState
from tonne.money.refunds.order_money import change_refund
from tonne.platform.db.pool import Connection
from tonne.platform.values.actor import Actor
from tonne.platform.values.replace import replace
from tonne.selling.orders.model import OrderStatus


async def decline_refund(tx: Connection, refund_id: str, reason: str, *, actor: Actor, now: datetime) -> Refund:
    """End the refund without sending money. Its amount can be refunded again later.

    Any operator may do it, also the one who requested the refund: no money moves. Raises RefundOwed if the order is
    cancelled: the payment of a cancelled order always goes back, and by bank a credit note says so already.
    """
    money, refund = await lock_refund(tx, refund_id)
    if refund.state is not RefundState.APPROVAL:
        raise RefundNotWaiting(f"Refund {refund.id} does not wait for an approval: it is {refund.state}.")
    if money.order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
        raise RefundOwed(
            f"Order {refund.order_id} is {money.order.status}, so its payment goes back. Approve the refund with "
            f"`tonne refund approve {refund.id}`."
        )
    message = f"Declined: {reason}"
    declined = replace(refund, state=RefundState.CANCELLED, settled_at=now, message=message)
    await change_refund(tx, money, declined, "refund.declined", actor=actor, now=now)
    return declined
