"""Every change of status goes through here: the table says which, compare-and-set says who wins, the event says it."""

from dataclasses import replace
from datetime import datetime

from tonne.db.pool import Connection
from tonne.events.log import NewEvent, append
from tonne.orders import store
from tonne.orders.errors import TransitionInvalid
from tonne.orders.model import EVENT_TYPES, TRANSITIONS, Order, OrderStatus
from tonne.orders.schemas import order_document


async def move_order(tx: Connection, order: Order, to: OrderStatus, now: datetime) -> Order:
    """Move `order` on from the status it was read with, and append the event. Call it last in the transaction.

    Refuses a move that is not in the table, and one that another transaction has made meanwhile: exactly one wins.
    """
    if (order.status, to) not in TRANSITIONS:
        raise TransitionInvalid(f"An order that is {order.status} cannot become {to}.")
    moved = replace(order, status=to)
    document = order_document(moved)
    if not await store.move_order(tx, moved, expected=order.status, document=document, now=now):
        raise TransitionInvalid(f"The order is no longer {order.status}: read it again.")
    await append(tx, order.scope, [event_of(moved, document)], now)
    return moved


def event_of(order: Order, document: bytes) -> NewEvent:
    return NewEvent(EVENT_TYPES[order.status], "order", order.id, document.decode())
