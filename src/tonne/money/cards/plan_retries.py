"""When an order whose card was declined is charged again."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from tonne.money.cards import charge_store
from tonne.money.cards.declines import failure_reason_of
from tonne.money.cards.gateways.card import ChargeOutcome
from tonne.money.cards.model import ChargeStatus, ChargeUpdate, RetrySchedule, TryCounts
from tonne.money.cards.stored_cards.card_link_store import note_problems
from tonne.platform.db.pool import Connection
from tonne.selling.orders.model import Order, OrderKey, OrderStatus
from tonne.selling.orders.move_order import Transitions
from tonne.selling.orders.queue import schedule_payment


async def plan_retries(
    tx: Connection, unpaid: Sequence[tuple[Order, ChargeUpdate]], now: datetime, schedule: RetrySchedule
) -> list[Transitions]:
    """Schedule the next attempt of each order; orders without attempts left fail.

    An order with an open charge waits for that charge. At a checkout the buyer decides whether to try another card.
    """
    if not unpaid:
        return []
    tries = await charge_store.count_tries(tx, [order.key for order, _ in unpaid])
    moments: dict[OrderKey, datetime | None] = {}
    failed: list[Transitions] = []
    await note_problems(tx, [order.scope for order, new in unpaid if _is_first_decline(new, tries[order.id])], now)
    for order, update in unpaid:
        is_open = update.status is not ChargeStatus.FAILED
        delay = None if is_open else schedule.retry_delay(update.outcome, tries[order.id])
        if delay is None and not is_open and not order.is_paid_at_checkout:
            failed.append(Transitions(order, [_failed(order, update)]))
        else:
            moments[order.key] = None if delay is None else order.due_at(now + delay)
    if moments:
        await schedule_payment(tx, moments)
    return failed


def _is_first_decline(update: ChargeUpdate, counts: TryCounts) -> bool:
    return update.status is ChargeStatus.FAILED and update.outcome is ChargeOutcome.DECLINED and counts.tries == 1


def _failed(order: Order, update: ChargeUpdate) -> Order:
    return structs.replace(order, status=OrderStatus.FAILED, failure_reason=failure_reason_of(update.code))
