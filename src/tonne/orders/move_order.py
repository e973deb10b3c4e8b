"""Every change of status goes through here: the table says which, compare-and-set says who wins, the event says it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tonne.base.scope import Scope
from tonne.db.pool import Connection
from tonne.events.log import NewEvent, append, append_to_streams
from tonne.orders import store
from tonne.orders.errors import TransitionInvalid
from tonne.orders.model import EVENT_TYPES, TRANSITIONS, Order, OrderStatus
from tonne.orders.schemas import order_document


async def move_order(
    tx: Connection, order: Order, to: OrderStatus, now: datetime, *, next_attempt_at: datetime | None = None
) -> Order:
    """Move `order` on from the status it was read with, and append the event. Call it last in the transaction.

    Refuses a move that is not in the table, and one that another transaction has made meanwhile: exactly one wins.
    """
    _check(order.status, to)
    moved = replace(order, status=to)
    document = order_document(moved)
    if not await store.move_order(
        tx, moved, expected=order.status, document=document, now=now, next_attempt_at=next_attempt_at
    ):
        raise TransitionInvalid(f"The order is no longer {order.status}: read it again.")
    await append(tx, order.scope, [event_of(moved, document)], now)
    return moved


async def mark_paid(tx: Connection, order: Order, now: datetime) -> Order:
    """The money is there. A worker then allocates supply, at once."""
    return await move_order(tx, order, OrderStatus.PAID, now, next_attempt_at=order.due_at(now))


@dataclass(frozen=True, slots=True)
class Transitions:
    """`order` as it was read and locked, and the orders that it becomes, one after the other."""

    order: Order
    steps: Sequence[Order]
    next_attempt_at: datetime | None = None


async def move_orders(tx: Connection, walks: Sequence[Transitions], now: datetime) -> None:
    """Move many orders on, each by one step or more, and append all events. Call it last in the transaction.

    For callers that hold the orders' rows: one that is no longer as it was read is a fault, and nothing moves.
    """
    moves: list[store.Moved] = []
    events: list[tuple[Scope, NewEvent]] = []
    for walk in walks:
        status, document = walk.order.status, b""
        for step in walk.steps:
            _check(status, step.status)
            status, document = step.status, order_document(step)
            events.append((step.scope, event_of(step, document)))
        moves.append(store.Moved(walk.steps[-1], walk.order.status, document, walk.next_attempt_at))
    if len(await store.move_orders(tx, moves, now)) != len(moves):
        raise TransitionInvalid("An order was moved by somebody else, although its row was held.")
    await append_to_streams(tx, events, now)


def event_of(order: Order, document: bytes) -> NewEvent:
    return NewEvent(EVENT_TYPES[order.status], "order", order.id, document.decode())


def _check(status: OrderStatus, to: OrderStatus) -> None:
    if (status, to) not in TRANSITIONS:
        raise TransitionInvalid(f"An order that is {status} cannot become {to}.")
