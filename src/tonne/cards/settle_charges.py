"""What the gateway said is written down, and the orders move on with it: in one transaction, by compare-and-set."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from tonne.cards import store
from tonne.cards.model import Attempt, Change, ChargeStatus, Pace, judge
from tonne.db.pool import Connection
from tonne.gateways.card import Charged
from tonne.orders.model import Order, OrderKey, OrderStatus
from tonne.orders.move_order import Transitions, move_orders
from tonne.orders.queue import lock_orders, schedule_payment

_log = structlog.get_logger()


async def settle_charges(
    tx: Connection,
    answers: Sequence[tuple[Attempt, Charged]],
    free: Sequence[OrderKey],
    now: datetime,
    pace: Pace,
) -> list[Order]:
    """Settle all of these together and return their orders as they are then. Call it last in the transaction.

    Captured for an order that still waits: it is paid. Captured for one that does not, because it was cancelled
    meanwhile: the money goes back. Declined: tried again by the plan, or failed. An order of `free` costs nothing.
    A charge that somebody else has settled is left alone, and its order too.
    """
    requests = [attempt.request for attempt, _ in answers]
    keys = [*(OrderKey(request.account_id, request.order_id) for request in requests), *free]
    orders = await lock_orders(tx, keys)
    changes = [
        judge(attempt, answer, is_wanted=_is_placed(orders[attempt.request.order_id]), now=now, pace=pace)
        for attempt, answer in answers
    ]
    settled = await store.settle_charges(tx, changes) if changes else set()
    ours = [
        (orders[request.order_id], change)
        for request, change in zip(requests, changes, strict=True)
        if change.id in settled
    ]
    _report(ours)
    waiting = [(order, change) for order, change in ours if _is_placed(order)]
    walks = _paid([order for order, change in waiting if change.status is ChargeStatus.CAPTURED], now)
    walks += _paid([orders[key.id] for key in free if _is_placed(orders[key.id])], now)
    walks += await _plan_retries(
        tx, [pair for pair in waiting if pair[1].status is not ChargeStatus.CAPTURED], now, pace
    )
    if walks:
        await move_orders(tx, walks, now)
    for walk in walks:
        orders[walk.order.id] = walk.steps[-1]
    return list(orders.values())


def _is_placed(order: Order) -> bool:
    return order.status is OrderStatus.PLACED


def _paid(orders: Iterable[Order], now: datetime) -> list[Transitions]:
    paid = [(order, replace(order, status=OrderStatus.PAID)) for order in orders]
    return [Transitions(order, [then], then.due_at(now)) for order, then in paid]


async def _plan_retries(
    tx: Connection, unpaid: Sequence[tuple[Order, Change]], now: datetime, pace: Pace
) -> list[Transitions]:
    """Say when each of these is charged again; those for which the plan is used up fail.

    While a charge is open, its order waits for that alone. At checkout it is the person who tries another card.
    """
    if not unpaid:
        return []
    tries = await store.count_tries(tx, [order.key for order, _ in unpaid])
    moments: dict[OrderKey, datetime | None] = {}
    walks: list[Transitions] = []
    for order, change in unpaid:
        is_open = change.status is not ChargeStatus.FAILED
        pause = None if is_open else pace.before_next_try(change.outcome, tries[order.id])
        if pause is None and not is_open and not order.is_paid_at_checkout:
            walks.append(Transitions(order, [replace(order, status=OrderStatus.FAILED)]))
        else:
            moments[order.key] = None if pause is None else order.due_at(now + pause)
    if moments:
        await schedule_payment(tx, moments)
    return walks


def _report(settled: Sequence[tuple[Order, Change]]) -> None:
    """What went as it should is in the log of events already."""
    for order, change in settled:
        if change.status is ChargeStatus.CAPTURED:
            continue
        log = _log.error if change.status is ChargeStatus.MISMATCHED else _log.info
        log(
            "charge_not_as_hoped",
            charge_id=change.id,
            order_id=order.id,
            status=change.status,
            outcome=change.outcome,
            code=change.code,
            reference=change.reference,
        )
