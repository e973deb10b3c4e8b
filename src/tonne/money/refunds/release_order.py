"""Cancel a paid order that nothing is allocated to."""

from datetime import datetime

from msgspec import structs

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor
from tonne.selling.orders.model import CancellationReason, Order, OrderStatus
from tonne.selling.orders.move_order import cancellation_entry, move_order
from tonne.selling.orders.store import note_cancellation
from tonne.supply.stock.holds.hold_store import delete_of_orders


async def release_order(
    tx: Connection, order: Order, code: CancellationReason, *, actor: Actor, reason: str | None, now: datetime
) -> Order:
    """Cancel a locked paid order and release the supply that is held for it. Call it last in the transaction.

    Raises TransitionInvalid if the order is not paid, or no longer.
    """
    await note_cancellation(tx, order, actor=actor, reason=reason)
    entry = cancellation_entry(order, reason=reason, cancellation_reason=code)
    await audit.record_all(tx, [entry], actor=actor, at=now)
    await delete_of_orders(tx, [order.key])
    return await move_order(tx, structs.replace(order, cancellation_reason=code), OrderStatus.CANCELLED, now)
