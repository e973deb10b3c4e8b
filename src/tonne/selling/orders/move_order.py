"""Changes the status of orders: checks the transition table, updates by compare-and-set, and appends the event."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from tonne.platform.db.database import Connection
from tonne.platform.events.audit.record import Entry, entry_in
from tonne.platform.events.log import NewEvent, append, append_to_streams, note_rewritten
from tonne.platform.events.notification import Stream
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Scope
from tonne.selling.orders import model, store
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.model import Order
from tonne.selling.orders.schemas import OrderOut, order_document

OnPaid = Callable[[Connection, Sequence[Order], datetime], Awaitable[None]]

_listeners: list[OnPaid] = []


def listen_for_paid_orders(*listeners: OnPaid) -> None:
    """Call `listener(tx, orders, now)` of each whenever orders are paid. A process connects them all at its start."""
    _listeners[:] = listeners


async def report_paid(tx: Connection, orders: Sequence[Order], now: datetime) -> None:
    """Raises LookupError in a process that has not connected listeners: it would lose payments without a trace."""
    if not orders:
        return
    if not _listeners:
        raise LookupError("nobody listens for paid orders: call connect_listeners of apps/wiring first")
    for listener in _listeners:
        await listener(tx, orders, now)


async def move_order(
    tx: Connection, order: model.Order, to: model.OrderStatus, now: datetime, *, next_attempt_at: datetime | None = None
) -> model.Order:
    """Move `order` from the status it was read with, and append the event. Call it last in the transaction.

    Raises TransitionInvalid if the table does not allow it, or if another transaction has moved the order meanwhile.
    """
    _check(order.status, to)
    moved = structs.replace(order, status=to)
    if to is model.OrderStatus.PAID:
        moved = moved.with_window(now)
    document = order_document(moved)
    if not await store.move_order(
        tx, moved, expected=order.status, document=document, now=now, next_attempt_at=next_attempt_at
    ):
        raise TransitionInvalid(f"The order is no longer {order.status}: read it again.")
    await append(tx, order.scope, [event_of(moved, document)], now)
    return moved


async def mark_paid(tx: Connection, order: model.Order, now: datetime) -> model.Order:
    """Move a placed order to paid. It is due at once, and a worker allocates supply."""
    paid = structs.replace(order, payment_state=model.PaymentState.PAID)
    await report_paid(tx, [paid], now)
    return await move_order(tx, paid, model.OrderStatus.PAID, now, next_attempt_at=order.due_at(now))


def with_payment(order: model.Order, now: datetime) -> model.Order:
    """The order once its payment has arrived."""
    paid = structs.replace(order, status=model.OrderStatus.PAID, payment_state=model.PaymentState.PAID)
    return paid.with_window(now)


class Transitions(msgspec.Struct, frozen=True):
    """A locked order, and its state after each transition."""

    order: model.Order
    steps: Sequence[model.Order]
    next_attempt_at: datetime | None = None


async def move_orders(
    tx: Connection, transitions: Sequence[Transitions], now: datetime, *, updated: Sequence[model.Order] = ()
) -> None:
    """Move several locked orders, each by one transition or more, and append all events.

    `updated` are other locked orders whose payment changed, but not their status: they get an event, too. Those of them
    that are paid were not paid before. Call it last in the transaction. An order that has changed since it was read is
    a bug of the caller.
    """
    moves: list[store.Moved] = []
    events: list[tuple[Scope, NewEvent]] = []
    for each in transitions:
        status, document = each.order.status, b""
        for step in each.steps:
            _check(status, step.status)
            status, document = step.status, order_document(step)
            events.append((step.scope, event_of(step, document)))
        moves.append(store.Moved(each.steps[-1], each.order.status, document, each.next_attempt_at))
    if moves and len(await store.move_orders(tx, moves, now)) != len(moves):
        raise TransitionInvalid("An order was moved by another transaction, although it was locked.")
    if updated:
        documents = [order_document(order) for order in updated]
        await store.rewrite_documents(tx, updated, documents)
        events.extend(
            (order.scope, payment_event(order, document)) for order, document in zip(updated, documents, strict=True)
        )
    moved = [each.steps[-1] for each in transitions if each.order.payment_state is model.PaymentState.UNPAID]
    # Before the events: the rows of their streams are locked until the commit.
    await report_paid(
        tx, [order for order in (*moved, *updated) if order.payment_state is model.PaymentState.PAID], now
    )
    if events:
        await append_to_streams(tx, events, now)


async def rewrite_documents(tx: Connection, orders: Sequence[model.Order]) -> set[Stream]:
    """Store the JSON of locked orders whose status does not change, without an event.

    Returns the streams that the commit locks.
    """
    rewritten = await store.rewrite_documents(tx, orders, [order_document(order) for order in orders])
    await note_rewritten(tx, rewritten)
    return rewritten


async def show_payment(tx: Connection, order: model.Order, now: datetime) -> None:
    """Store the payment state and the refunded amount of a locked order, show them in its JSON, and append the event.

    The rest of the JSON is copied: it has certificate and projects, which are not always read with the order. Call it
    last in the transaction.
    """
    stored = await store.find_by_id(tx, order.scope, order.id)
    if stored is None:
        raise LookupError(f"no order {order.id}")
    shown = msgspec.json.decode(stored, type=OrderOut)
    shown.payment_state = order.payment_state
    shown.refunded_amount = format_money(order.refunded_minor, order.currency)
    document = msgspec.json.encode(shown)
    await store.store_payment(tx, order, document)
    await append(tx, order.scope, [payment_event(order, document)], now)


class BilledShare(NamedTuple):
    """What an order has of the sums that it was billed with, and what they took off its total cost."""

    key: model.OrderKey
    currency: str
    adjustment_minor: int
    tax_minor: int
    amount_due_minor: int


async def show_billed(tx: Connection, shares: Sequence[BilledShare], now: datetime) -> None:
    """Store what locked orders were billed with, and show it in their JSON. The rest is copied without parsing it."""
    keys = [share.key for share in shares]
    stored = await store.find_documents(tx, keys)
    documents = []
    for share in shares:
        shown = _fields_of(stored[share.key])
        shown["tax"] = _encode(format_money(share.tax_minor, share.currency))
        shown["billing_adjustment"] = _encode(format_money(share.adjustment_minor, share.currency))
        shown["amount_due"] = _encode(format_money(share.amount_due_minor, share.currency))
        documents.append(msgspec.json.encode(shown))
    billed = [
        store.Billed(*share.key, share.tax_minor, share.adjustment_minor, document)
        for share, document in zip(shares, documents, strict=True)
    ]
    await note_rewritten(tx, await store.store_billed(tx, billed, now))


_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _encode(text: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(text))


def event_of(order: model.Order, document: bytes) -> NewEvent:
    return order_event(order.status, order.id, document)


def order_event(status: model.OrderStatus, order_id: str, document: bytes) -> NewEvent:
    return NewEvent(model.EVENT_TYPES[status], order_id, document)


def payment_event(order: model.Order, document: bytes) -> NewEvent:
    return NewEvent(model.PAYMENT_UPDATED, order.id, document)


def person_erased_event(order: model.Order, document: bytes) -> NewEvent:
    return NewEvent(model.PERSON_ERASED, order.id, document)


def _check(status: model.OrderStatus, to: model.OrderStatus) -> None:
    if (status, to) not in model.TRANSITIONS:
        raise TransitionInvalid(
            f"The order is already {to}." if status is to else f"An order that is {status} cannot become {to}."
        )


def cancellation_entry(order: model.Order, **details: Any) -> Entry:
    """For the audit log."""
    change = {"before": {"status": order.status}, "after": {"status": model.OrderStatus.CANCELLED}}
    return entry_in(order.scope, "order.cancelled", order.id, **change, **details)
