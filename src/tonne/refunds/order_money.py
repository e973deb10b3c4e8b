"""Everything that was paid for an order and sent back, and what follows from it for the order."""

from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from tonne.accounts.audit import Entry, record_all
from tonne.accounts.model import PaymentMethod
from tonne.base.actor import Actor
from tonne.base.ids import new_id
from tonne.base.money import format_money
from tonne.base.scope import Scope
from tonne.cards.captured_store import CapturedCharge, find_captured, find_paying, update_captured
from tonne.cards.model import ChargeStatus
from tonne.db.pool import Connection
from tonne.gateways.payment_record import DisputeState
from tonne.invoices.credit_note_store import sum_corrections
from tonne.orders.model import CancellationReason, Order, OrderStatus, PaymentState
from tonne.orders.move_order import show_payment
from tonne.orders.queue import lock_order, wake_paid
from tonne.refunds import dispute_store, store
from tonne.refunds.model import (
    Dispute,
    Refund,
    RefundMethod,
    RefundPurpose,
    RefundState,
    refundable,
    refunded,
)
from tonne.refunds.release_order import release_order

_OVER = (OrderStatus.CANCELLED, OrderStatus.FAILED)
_log = structlog.get_logger()


@dataclass(slots=True)
class OrderMoney:
    """A locked order with its payments. Changes of refunds and disputes are written at once; `settle` does the rest."""

    order: Order
    charges: list[CapturedCharge]
    refunds: list[Refund]
    disputes: list[Dispute]
    # What an operator took off its invoice before it was paid.
    corrected_minor: int

    @property
    def paying(self) -> CapturedCharge | None:
        return find_paying(self.charges)

    @property
    def paid_minor(self) -> int:
        """What was paid for the order: by its charge, or by the transfers that settled its invoice."""
        if self.order.payment_method is PaymentMethod.CARD:
            charge = self.paying
            return 0 if charge is None else (charge.captured_minor or 0) - self._surplus_of(charge)
        is_paid = self.order.payment_state is not PaymentState.UNPAID
        return (self.order.amount_due_minor or 0) - self.corrected_minor if is_paid else 0

    def of_order(self) -> list[Refund]:
        """Without those of payments that never paid for the order."""
        return [each for each in self.refunds if each.purpose is not RefundPurpose.SURPLUS]

    def of_charge(self, charge: CapturedCharge) -> list[Refund]:
        return [each for each in self.refunds if each.charge_id == charge.id]

    def _surplus_of(self, charge: CapturedCharge) -> int:
        """What arrived above the amount of the order, and goes back."""
        of_charge = self.of_charge(charge)
        return sum(each.amount_minor for each in of_charge if each.is_active and each not in self.of_order())

    def disputes_of(self, charge: CapturedCharge | None) -> list[Dispute]:
        return [] if charge is None else [each for each in self.disputes if each.charge_id == charge.id]

    @property
    def refundable_minor(self) -> int:
        """What can still be refunded of what was paid for the order."""
        if self.order.payment_method is PaymentMethod.CARD:
            return 0 if self.paying is None else self.left_of(self.paying)
        return refundable(self.paid_minor, self.of_order(), [])

    def left_of(self, charge: CapturedCharge) -> int:
        return refundable(charge.captured_minor or 0, self.of_charge(charge), self.disputes_of(charge))


async def lock_money(tx: Connection, scope: Scope, order_id: str) -> OrderMoney | None:
    """Lock an order: everything below changes only under this lock, so that no amount is refunded twice."""
    order = await lock_order(tx, scope, order_id)
    if order is None:
        return None
    return OrderMoney(
        order,
        await find_captured(tx, order),
        await store.list_of_order(tx, order),
        await dispute_store.list_disputes(tx, order),
        await sum_corrections(tx, order),
    )


async def add_refund(tx: Connection, money: OrderMoney, refund: Refund, *, actor: Actor) -> None:
    """The caller has checked the amount."""
    await store.insert_refund(tx, refund)
    money.refunds.append(refund)
    await record_all(tx, [entry_of(refund, "refund.requested", before=None)], actor=actor, at=refund.created_at)


async def change_refund(
    tx: Connection, money: OrderMoney, refund: Refund, action: str, *, actor: Actor, now: datetime
) -> bool:
    """Store a new state; false if the stored state is not the one that was read."""
    old = next(each for each in money.refunds if each.id == refund.id)
    if not await store.update_refund(tx, refund, old.state):
        return False
    money.refunds = store.with_update(money.refunds, refund)
    if old.state is not refund.state:
        await record_all(tx, [entry_of(refund, action, before=old.state)], actor=actor, at=now)
    return True


def entry_of(refund: Refund, action: str, *, before: RefundState | None) -> Entry:
    return Entry(
        action=action,
        subject_id=refund.id,
        organisation_id=refund.scope.organisation_id,
        mode=refund.scope.mode,
        before=None if before is None else {"state": before},
        after={"state": refund.state},
        details={
            "order_id": refund.order_id,
            "amount": f"{format_money(refund.amount_minor, refund.currency)} {refund.currency}",
            "method": refund.method,
            "purpose": refund.purpose,
            "reason": refund.reason,
            **({} if refund.message is None else {"message": refund.message}),
        },
    )


async def settle(tx: Connection, money: OrderMoney, *, actor: Actor, now: datetime) -> Order:
    """Bring charges and order into line with the refunds and disputes. Call it last in the transaction.

    A paid order whose money went back before it was allocated is cancelled. What is left of payments that no order
    needs is refunded.
    """
    await _settle_charges(tx, money, now)
    order = replace(money.order, payment_state=_payment_state(money), refunded_minor=_refunded_minor(money))
    why = _ended_by_gateway(money, order)
    if why is None:
        await _plan_owed(tx, money, actor=actor, now=now)
        return await _store(tx, money, order, now)
    money.order = replace(order, status=OrderStatus.CANCELLED)
    await _plan_owed(tx, money, actor=actor, now=now)
    return await release_order(tx, order, why, actor=actor, reason=None, now=now)


async def _store(tx: Connection, money: OrderMoney, order: Order, now: datetime) -> Order:
    before = money.order
    is_held = order.payment_state is PaymentState.DISPUTED
    if before.payment_state is PaymentState.DISPUTED and not is_held and order.auto_advance:
        await wake_paid(tx, order)
    if (order.payment_state, order.refunded_minor) != (before.payment_state, before.refunded_minor):
        await show_payment(tx, order, now)
    return order


async def _settle_charges(tx: Connection, money: OrderMoney, now: datetime) -> None:
    """A charge of which nothing is left is `refunded`. One whose refund failed later is not."""
    settled = []
    for charge in money.charges:
        status = charge.status
        if status is not ChargeStatus.MISMATCHED:
            is_gone = charge.captured_minor is not None and refunded(money.of_charge(charge)) >= charge.captured_minor
            kept = ChargeStatus.REFUND_DUE if charge.is_surplus else ChargeStatus.CAPTURED
            status = ChargeStatus.REFUNDED if is_gone else kept
        if status is not charge.status:
            await update_captured(tx, replace(charge, status=status), now=now)
        settled.append(replace(charge, status=status))
    money.charges = settled


def _payment_state(money: OrderMoney) -> PaymentState:
    """An open or lost dispute comes first: the money is not there, whatever else was refunded."""
    state = money.order.payment_state
    if state is PaymentState.UNPAID:
        return state
    if any(each.state is not DisputeState.WON for each in money.disputes_of(money.paying)):
        return PaymentState.DISPUTED
    is_gone = 0 < money.paid_minor <= refunded(money.of_order())
    return PaymentState.REFUNDED if is_gone else PaymentState.PAID


def _refunded_minor(money: OrderMoney) -> int:
    """At most what the order costs. More goes back of an accepted payment that was higher, or by hand and by card."""
    refunded_minor, due = refunded(money.of_order()), money.order.amount_due_minor
    return refunded_minor if due is None else min(refunded_minor, due)


def _ended_by_gateway(money: OrderMoney, order: Order) -> CancellationReason | None:
    """Why a paid order that nothing is allocated to ends: its money is gone, without a request to us."""
    if order.status is not OrderStatus.PAID:
        return None
    if any(each.state is DisputeState.LOST for each in money.disputes_of(money.paying)):
        return CancellationReason.DISPUTE_LOST
    if order.payment_state is PaymentState.REFUNDED and any(
        each.purpose is RefundPurpose.GATEWAY for each in money.of_order()
    ):
        return CancellationReason.REFUNDED_AT_GATEWAY
    return None


async def _plan_owed(tx: Connection, money: OrderMoney, *, actor: Actor, now: datetime) -> None:
    """Plan the refund of what is left of payments that no order needs."""
    for charge in money.charges:
        is_over = money.order.status in _OVER or charge.is_surplus
        if charge.status is ChargeStatus.MISMATCHED or not is_over or money.left_of(charge) == 0:
            continue
        refund = Refund(
            scope=charge.scope,
            id=new_id("rfd"),
            order_id=charge.order_id,
            method=RefundMethod.CARD,
            charge_id=charge.id,
            amount_minor=money.left_of(charge),
            currency=charge.captured_currency or charge.currency,
            purpose=RefundPurpose.SURPLUS if charge.is_surplus else RefundPurpose.CANCELLATION,
            reason="The payment is not needed for the order",
            state=RefundState.DUE,
            requested_by=str(actor),
            created_at=now,
            next_attempt_at=now,
        )
        _log.info("refund_due", refund_id=refund.id, order_id=refund.order_id, charge_id=charge.id)
        await add_refund(tx, money, refund, actor=actor)
