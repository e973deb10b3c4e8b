"""Open charges of orders before the gateway is called, then record their results and move the orders.

Results are recorded in one transaction with the moves, by compare-and-set. Why a charge failed is one of the stable
codes of an order's `failure_reason`. The test helpers capture or decline an order's card on demand.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import structlog
from msgspec import Struct, structs

from tonne.money.cards import charge_store
from tonne.money.cards.charge_store import ChargeableOrder, find_pending, insert_charges, read_chargeable
from tonne.money.cards.errors import ChargeUnderWay, OrderPaidByInvoice
from tonne.money.cards.gateways.card import CardGateway, ChargeOutcome, ChargeResult, StoredCard
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.model import (
    DECLINES,
    ChargeAttempt,
    ChargeStatus,
    ChargeUpdate,
    DeclineCode,
    RetrySchedule,
    TryCounts,
    decide_charge,
)
from tonne.money.cards.stored_cards.card_link_store import note_problems
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit.record import record_all
from tonne.platform.values.context import Clock, Scope, job_actor, replace
from tonne.platform.values.language import N_
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails
from tonne.selling.orders.model import CancellationReason, FailureReason, Order, OrderKey, OrderStatus
from tonne.selling.orders.move_order import Transitions, cancellation_entry, move_orders, with_payment
from tonne.selling.orders.queue import lock_orders, require_locked_order, schedule_payment
from tonne.selling.orders.store import note_cancellation

# By the gateway's code. All other codes are `card_declined`: a bank does not want payers to learn that a card is
# reported as stolen.
_REASONS: Mapping[str, FailureReason] = {
    "insufficient_funds": FailureReason.INSUFFICIENT_FUNDS,
    "withdrawal_count_limit_exceeded": FailureReason.INSUFFICIENT_FUNDS,
    "expired_card": FailureReason.EXPIRED_CARD,
    "invalid_expiry_month": FailureReason.EXPIRED_CARD,
    "invalid_expiry_year": FailureReason.EXPIRED_CARD,
    "no_card": FailureReason.CARD_MISSING,
    "amount_too_small": FailureReason.AMOUNT_NOT_CHARGEABLE,
    "amount_too_large": FailureReason.AMOUNT_NOT_CHARGEABLE,
    "amount_not_chargeable": FailureReason.AMOUNT_NOT_CHARGEABLE,
    "authentication_required": FailureReason.AUTHENTICATION_REQUIRED,
    "authentication_not_handled": FailureReason.AUTHENTICATION_REQUIRED,
    "payment_intent_authentication_failure": FailureReason.AUTHENTICATION_REQUIRED,
}
_WORDS: Mapping[FailureReason, str] = {
    FailureReason.CARD_DECLINED: N_("The bank declined the card."),
    FailureReason.INSUFFICIENT_FUNDS: N_("The card has insufficient funds."),
    FailureReason.EXPIRED_CARD: N_("The card has expired."),
    FailureReason.CARD_MISSING: N_("No card is stored."),
    FailureReason.AMOUNT_NOT_CHARGEABLE: N_("The amount cannot be charged to a card."),
    FailureReason.AUTHENTICATION_REQUIRED: N_("The payment was not confirmed in time."),
}


def failure_reason_of(code: str | None) -> FailureReason:
    return _REASONS.get(code or "", FailureReason.CARD_DECLINED)


def explain_decline(code: str | None) -> str:
    """A sentence for the payer, in English: it is translated where it is shown."""
    return _WORDS[failure_reason_of(code)]


class OpenedCharges(Struct, frozen=True):
    """New charges, and the zero-total orders, which need none."""

    attempts: list[ChargeAttempt]
    free: list[OrderKey]

    def __bool__(self) -> bool:
        return bool(self.attempts or self.free)


class FindBilled(Protocol):
    """The ids of those orders that are on an invoice. `invoices` comes after this package, so it is passed in."""

    async def __call__(self, tx: Connection, keys: Sequence[OrderKey]) -> set[str]: ...


class BillBefore(Protocol):
    """The ids of those orders that are on an invoice, or that it bills now because others are charged with them."""

    async def __call__(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> set[str]: ...


async def open_charges(
    tx: Connection,
    orders: Sequence[ChargeableOrder],
    now: datetime,
    held_until: datetime,
    *,
    billed: Collection[str] = (),
) -> OpenedCharges:
    """Insert a pending charge for each of these locked placed orders that has no open charge.

    Orders that are billed together get none: `billed` are those that are on their invoice already. From then on the
    charge is due, not its order: after `held_until` a worker looks it up. A zero-total order gets no charge and is due
    again at `held_until`.
    """
    free = [order.key for order in orders if order.amount_minor == 0]
    await schedule_payment(tx, {order.key: held_until if order.amount_minor == 0 else None for order in orders})
    unpaid = [
        order
        for order in orders
        if order.amount_minor > 0 and not (order.has_open_charge or order.is_untaxed or order.id in billed)
    ]
    return OpenedCharges(await insert_charges(tx, unpaid, now, held_until) if unpaid else [], free)


ACTOR = job_actor("charge_cards")
_TAKEN = {ChargeStatus.CAPTURED, ChargeStatus.REFUND_DUE}

_log = structlog.get_logger()


async def settle_charges(
    tx: Connection,
    results: Sequence[tuple[ChargeAttempt, ChargeResult]],
    free: Sequence[OrderKey],
    now: datetime,
    schedule: RetrySchedule,
) -> list[Order]:
    """Settle charges of orders together and return their orders in their new state. Call it last in the transaction.

    A captured charge pays its order, with a receipt; if the order was cancelled meanwhile, the charge is refunded.
    If somebody has refunded all of it at the gateway meanwhile, the order is cancelled.
    After a decline the order is charged again according to the schedule, or fails. A charge of a stored card that the
    payer has to confirm stays pending. Zero-total orders (`free`) are marked as paid. A charge that another worker has
    settled is left unchanged, and so is its order.
    """
    orders = await lock_orders(tx, [*(_key_of(attempt) for attempt, _ in results), *free])
    decided = [(orders[_key_of(attempt).id], _decide(orders, attempt, to, now, schedule)) for attempt, to in results]
    settled = await charge_store.settle_charges(tx, [update for _, update in decided]) if decided else {}
    applied = [(order, replace(new, status=settled[new.id])) for order, new in decided if new.id in settled]
    for order, update in applied:
        log_failure(update, order_id=order.id)
    waiting = [(order, update) for order, update in applied if _is_placed(order)]
    captured = [(order, update) for order, update in waiting if update.status is ChargeStatus.CAPTURED]
    unpaid = [(order, update) for order, update in waiting if update.status not in _TAKEN]
    costless = [orders[key.id] for key in free if _is_placed(orders[key.id])]
    moves = _paid([*(order for order, _ in captured), *costless], now)
    moves += await _cancel_refunded(tx, [order for order, update in waiting if update.is_surplus], now)
    moves += await _plan_retries(tx, unpaid, now, schedule)
    confirmable = {attempt.request.id for attempt, _ in results if attempt.confirm_until is not None}
    asked = [order for order, update in waiting if update.needs_confirmation and update.id not in confirmable]
    # A buyer at a checkout needs no mail: the bank's page is open.
    asked = [order for order in asked if not order.is_paid_at_checkout]
    await note_problems(tx, [order.scope for order in [*asked, *_failed(moves)]], now)
    await add_mails(tx, [_receipt(order, update) for order, update in captured if order.payer_email], now)
    if moves:
        await move_orders(tx, moves, now)
    return list((orders | {move.order.id: move.steps[-1] for move in moves}).values())


def _key_of(attempt: ChargeAttempt) -> OrderKey:
    return OrderKey(attempt.request.account_id, attempt.request.order_id or "")


def _decide(
    orders: dict[str, Order], attempt: ChargeAttempt, result: ChargeResult, now: datetime, schedule: RetrySchedule
) -> ChargeUpdate:
    order = orders[_key_of(attempt).id]
    return decide_charge(
        attempt,
        result,
        is_wanted=_is_placed(order),
        at_checkout=order.is_paid_at_checkout,
        now=now,
        schedule=schedule,
    )


def _is_placed(order: Order) -> bool:
    return order.status is OrderStatus.PLACED


def _failed(moves: Sequence[Transitions]) -> list[Order]:
    return [move.order for move in moves if move.steps[-1].status is OrderStatus.FAILED]


def _paid(orders: Iterable[Order], now: datetime) -> list[Transitions]:
    return [Transitions(order, [paid := with_payment(order, now)], paid.due_at(now)) for order in orders]


def _receipt(order: Order, update: ChargeUpdate) -> OrderMailRow:
    return OrderMailRow(order.scope, order.id, OrderMailKind.RECEIPT, update.id, order.amount_due_minor or 0)


async def _cancel_refunded(tx: Connection, orders: Sequence[Order], now: datetime) -> list[Transitions]:
    """Orders whose payment was captured and then refunded at the gateway, before its answer arrived here."""
    for order in orders:
        await note_cancellation(tx, order, actor=ACTOR, reason="The payment was refunded at the card gateway.")
    why = CancellationReason.REFUNDED_AT_GATEWAY
    entries = [cancellation_entry(order, cancellation_reason=why) for order in orders]
    await record_all(tx, entries, by=ACTOR.at(now))
    return [
        Transitions(order, [structs.replace(order, status=OrderStatus.CANCELLED, cancellation_reason=why)])
        for order in orders
    ]


def log_failure(update: ChargeUpdate, **subject: str) -> None:
    """`subject` is the order or the invoice that was not paid."""
    if update.status is ChargeStatus.CAPTURED:
        return
    log = _log.error if update.status is ChargeStatus.MISMATCHED else _log.info
    log(
        "charge_not_captured",
        charge_id=update.id,
        **subject,
        status=update.status,
        outcome=update.outcome,
        code=update.code,
        reference=update.reference,
    )


async def _plan_retries(
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
            reason = failure_reason_of(update.code)
            failed.append(
                Transitions(order, [structs.replace(order, status=OrderStatus.FAILED, failure_reason=reason)])
            )
        else:
            moments[order.key] = None if delay is None else order.due_at(now + delay)
    if moments:
        await schedule_payment(tx, moments)
    return failed


def _is_first_decline(update: ChargeUpdate, counts: TryCounts) -> bool:
    return update.status is ChargeStatus.FAILED and update.outcome is ChargeOutcome.DECLINED and counts.tries == 1


# Always succeeds, whichever card the account has stored.
GOOD_CARD = StoredCard("cus_test_helper", "4242424242424242")
# Always has to be confirmed by the payer.
CONFIRMED_CARD = StoredCard("cus_test_helper", "4000002760003184")
BILLED_TOGETHER = (
    "This order is billed with others, and one charge of the card pays their invoice. Use the settle-invoice or the "
    "collect test helper."
)


class SimulatePayment(Struct, frozen=True):
    """In the same steps as a worker."""

    database: Database
    gateway: CardGateway
    find_billed: FindBilled
    clock: Clock
    schedule: RetrySchedule

    async def pay(self, scope: Scope, order_id: str) -> Order:
        """Charge a working test card, or confirm a charge that waits for its payer."""
        async with self.database.transaction() as tx:
            order = await self._lock(tx, scope, order_id)
            waiting = await find_pending(tx, order)
            if waiting is None or waiting.confirm_until is None:
                waiting = None
                opened = await self._open(tx, order, GOOD_CARD)
        if waiting is not None:
            confirmed = await SimulatedCardGateway(self.database).authenticate(waiting.request, succeeds=True)
            results, opened = [(waiting, confirmed)], OpenedCharges([], [])
        else:
            results = [(attempt, await self.gateway.charge(attempt.request)) for attempt in opened.attempts]
        [order] = await self.database.commit(settle_charges, results, opened.free, self.clock(), self.schedule)
        if order.status is not OrderStatus.PAID:
            raise TransitionInvalid(f"The order became {order.status} before it was paid.")
        return order

    async def decline(self, scope: Scope, order_id: str, code: DeclineCode) -> Order:
        """Record one declined attempt. As after a real decline, the order is charged again later, or fails.

        A charge that needs authentication is made at the gateway, where the payer can then confirm it.
        """
        result: ChargeResult | None = None
        if code is not DeclineCode.AUTHENTICATION_REQUIRED:
            result = ChargeResult(DECLINES[code], code=code, message="Declined by the test helper.")
        async with self.database.transaction() as tx:
            order = await self._lock(tx, scope, order_id)
            opened = await self._open(tx, order, GOOD_CARD if result else CONFIRMED_CARD)
            if not opened.attempts:
                raise TransitionInvalid("The order total is zero, so there is no charge to decline.")
            [attempt] = opened.attempts
            if result is not None:
                [order] = await settle_charges(tx, [(attempt, result)], [], self.clock(), self.schedule)
                return order
        result = await self.gateway.charge(attempt.request)
        [order] = await self.database.commit(settle_charges, [(attempt, result)], [], self.clock(), self.schedule)
        return order

    async def _lock(self, tx: Connection, scope: Scope, order_id: str) -> Order:
        order = await require_locked_order(tx, scope, order_id)
        if order.payment_method is not PaymentMethod.CARD:
            raise OrderPaidByInvoice
        if order.status is not OrderStatus.PLACED:
            raise TransitionInvalid(f"The order is {order.status}. Only a placed order can be paid.")
        if order.tax.tax_minor is None or await self.find_billed(tx, [order.key]):
            raise OrderPaidByInvoice(BILLED_TOGETHER)
        return order

    async def _open(self, tx: Connection, order: Order, card: StoredCard) -> OpenedCharges:
        now = self.clock()
        [chargeable] = await read_chargeable(tx, [order.key])
        if chargeable.has_open_charge:
            raise ChargeUnderWay
        return await open_charges(tx, [chargeable.paid_with(card)], now, now + self.schedule.lease())
