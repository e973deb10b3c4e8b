"""End the wait of a paid order before it is fulfilled, at the request of its client."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from msgspec import structs

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.events.log import note_rewritten
from tonne.platform.events.notification import Stream
from tonne.platform.events.optional_events import OptionalEvent, record_optional
from tonne.platform.values.context import By, Scope, to_wire
from tonne.selling.orders.errors import OrderFulfilled, TransitionInvalid
from tonne.selling.orders.model import RELEASED, Order, OrderKey, OrderStatus
from tonne.selling.orders.queue import require_locked_order
from tonne.selling.orders.schemas import order_document
from tonne.selling.orders.window_store import store_window

FULFILLED = (OrderStatus.RETIRING, OrderStatus.COMPLETE)
NOT_PAID = "Only a paid order that waits can be {}: this one is {}."

OnReleased = Callable[[Connection, Sequence[OrderKey], datetime], Awaitable[None]]

_listeners: list[OnReleased] = []


def listen_for_released_orders(*listeners: OnReleased) -> None:
    """Call `listener(tx, keys, now)` of each when an order waits no longer, as `listen_for_paid_orders` does."""
    _listeners[:] = listeners


async def release_order(tx: Connection, scope: Scope, order_id: str, *, by: By) -> Order:
    """Call it last in the transaction. An order that does not wait any more stays as it is."""
    order = await require_locked_order(tx, scope, order_id)
    if order.status in FULFILLED:
        raise OrderFulfilled
    if order.status is not OrderStatus.PAID:
        raise TransitionInvalid(NOT_PAID.format("released", order.status))
    return await end_window(tx, order, by=by) if order.is_in_window(by.at) else order


async def end_window(tx: Connection, order: Order, *, by: By) -> Order:
    """Of a locked order that waits."""
    released = structs.replace(order, fulfil_after=by.at, fulfil_manually=False)
    await store_window(tx, released, next_attempt_at=released.due_at(by.at))
    for listener in _listeners:
        await listener(tx, [order.key], by.at)
    await note_rewritten(tx, {Stream(order.scope.organisation_id, order.scope.mode)})
    await audit.record(
        tx,
        order.scope,
        "order.released",
        by=by,
        subject_id=order.id,
        before={"fulfil_after": _shown(order.fulfil_after)},
        after={"fulfil_after": to_wire(by.at)},
    )
    event = OptionalEvent(RELEASED, order.id, order_document(released))
    await record_optional(tx, [(order.scope, event)], by.at)
    return released


def _shown(moment: datetime | None) -> str | None:
    return None if moment is None else to_wire(moment)
