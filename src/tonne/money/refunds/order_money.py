"""Everything that was paid for an order and sent back, and what follows from it for the order."""

from collections.abc import Mapping
from datetime import datetime

import structlog
from msgspec import Struct, structs

from tonne.money.cards.captured_store import CapturedCharge, find_captured, find_paying, lock_shared, update_captured
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.cards.model import ChargeStatus
from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order
from tonne.money.invoices.credit_notes.store import sum_corrections
from tonne.money.invoices.issuing.billed_order_store import list_paid_shares
from tonne.money.invoices.store import find_invoice
from tonne.money.refunds import store
from tonne.money.refunds.correct_documents import correct_documents
from tonne.money.refunds.disputes import dispute_store
from tonne.money.refunds.model import Dispute, Refund, RefundMethod, RefundPurpose, RefundState, refundable, refunded
from tonne.money.refunds.refund_events import record_refund
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.events.audit.record import Entry, entry_in, record_all
from tonne.platform.values.amounts import apportion, charge_unit, format_money
from tonne.platform.values.context import Actor, By, Scope, new_id, replace
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.load import load_order
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails
from tonne.selling.orders.model import CancellationReason, Order, OrderKey, OrderStatus, PaymentState
from tonne.selling.orders.move_order import cancellation_entry, move_order, show_payment
from tonne.selling.orders.queue import lock_order, note_dispute, wake_paid
from tonne.selling.orders.store import note_cancellation
from tonne.selling.orders.window_store import sum_paid_reductions
from tonne.supply.stock.holds.hold_store import delete_of_orders


async def release_order(tx: Connection, order: Order, code: CancellationReason, *, by: By, reason: str | None) -> Order:
    """Cancel a locked paid order and release the supply that is held for it. Call it last in the transaction.

    Raises TransitionInvalid if the order is not paid, or no longer.
    """
    await note_cancellation(tx, order, actor=by.actor, reason=reason)
    entry = cancellation_entry(order, reason=reason, cancellation_reason=code)
    await audit.record_all(tx, [entry], by=by)
    await delete_of_orders(tx, [order.key])
    return await move_order(tx, structs.replace(order, cancellation_reason=code), OrderStatus.CANCELLED, by.at)


_OVER = (OrderStatus.CANCELLED, OrderStatus.FAILED)
_log = structlog.get_logger()


class OrderMoney(Struct):
    """A locked order with its payments. Changes of refunds and disputes are written at once; `settle` does the rest."""

    order: Order
    charges: list[CapturedCharge]
    refunds: list[Refund]
    disputes: list[Dispute]
    # What an operator took off its invoice before it was paid.
    corrected_minor: int
    # What was taken off the order since it was paid.
    reduced_minor: int = 0
    # What was paid for it by a charge for its invoice; its part of disputes of that charge is in `disputes`.
    share_minor: int = 0
    # A card was to pay its invoice.
    is_billed: bool = False

    @property
    def is_by_card(self) -> bool:
        """Whether refunds go to a card. An invoice that a card was to pay may have been paid by bank transfer."""
        if self.order.payment_method is not PaymentMethod.CARD:
            return False
        return self.paying is not None or not self.is_billed

    @property
    def paying(self) -> CapturedCharge | None:
        return find_paying(self.charges)

    @property
    def paid_minor(self) -> int:
        """What was paid for the order: by its charge, or by the transfers that settled its invoice."""
        if self.is_by_card:
            charge = self.paying
            if charge is not None and charge.is_shared:
                return self.share_minor
            return 0 if charge is None else (charge.captured_minor or 0) - self._surplus_of(charge)
        is_paid = self.order.payment_state is not PaymentState.UNPAID
        due_minor = (self.order.amount_due_minor or 0) + self.reduced_minor
        return due_minor - self.corrected_minor if is_paid else 0

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
    def has_open_dispute(self) -> bool:
        """A dispute of a charge that never paid for the order does not count: that charge is refunded anyway."""
        return any(each.state is DisputeState.OPENED for each in self.disputes_of(self.paying))

    @property
    def refundable_minor(self) -> int:
        """What can still be refunded of what was paid for the order."""
        if self.is_by_card:
            return 0 if self.paying is None else self.left_of(self.paying)
        return refundable(self.paid_minor, self.of_order(), [])

    def left_of(self, charge: CapturedCharge) -> int:
        """What is left of the order's part of a charge for an invoice, in units that a card can be refunded."""
        if not charge.is_shared:
            return refundable(charge.captured_minor or 0, self.of_charge(charge), self.disputes_of(charge))
        refunds = [each for each in self.of_charge(charge) if each.purpose is not RefundPurpose.SURPLUS]
        left = refundable(self.share_minor, refunds, self.disputes_of(charge))
        return left - left % charge_unit(charge.currency)

    @property
    def is_gone(self) -> bool:
        """Whether all that was paid for the order as it is now has gone back, up to what a card cannot be refunded."""
        taken_off = [each for each in self.of_order() if each.purpose is RefundPurpose.REDUCTION and each.is_active]
        paid = self.paid_minor - sum(each.amount_minor for each in taken_off)
        left = paid - refunded([each for each in self.of_order() if each not in taken_off])
        charge = self.paying
        unit = charge_unit(charge.currency) if charge is not None and charge.is_shared else 1
        return paid > 0 and left < unit


async def lock_money(tx: Connection, scope: Scope, order_id: str) -> OrderMoney | None:
    """Lock an order: everything below changes only under this lock, so that no amount is refunded twice."""
    order = await lock_order(tx, scope, order_id)
    if order is None:
        return None
    charges = await find_captured(tx, order)
    await lock_shared(tx, charges)
    return await _money_of(tx, order, charges)


async def read_money(connection: Connection, scope: Scope, order_id: str) -> OrderMoney | None:
    """Without locks, to show it. It may change at any time."""
    order = await load_order(connection, scope, order_id)
    return None if order is None else await _money_of(connection, order, await find_captured(connection, order))


async def _money_of(connection: Connection, order: Order, charges: list[CapturedCharge]) -> OrderMoney:
    money = OrderMoney(
        order,
        charges,
        await store.list_of_order(connection, order),
        await dispute_store.list_disputes(connection, order),
        await sum_corrections(connection, order),
        await sum_paid_reductions(connection, order),
        is_billed=order.payment_method is PaymentMethod.CARD and await _is_billed(connection, order),
    )
    shared = next((charge for charge in charges if charge.is_shared), None)
    if shared is not None:
        only = None if money.disputes else order.id
        shares = await list_paid_shares(connection, shared, only)
        money.share_minor = shares.get(order.key, 0)
        money.disputes = [divide_dispute(each, shares)[order.key] for each in money.disputes]
    return money


async def _is_billed(tx: Connection, order: Order) -> bool:
    """Whether its invoice was issued before it was paid."""
    invoice = await find_invoice(tx, order.scope, order.id)
    return invoice is not None and not invoice.is_prepaid


def divide_dispute(dispute: Dispute, shares: Mapping[OrderKey, int]) -> dict[OrderKey, Dispute]:
    """The part of each order in a dispute of a charge that paid for all of them, by what was paid for each."""
    if dispute.order_id is not None or sum(shares.values()) == 0:
        return dict.fromkeys(shares, dispute)
    withdrawn = apportion(dispute.withdrawn_minor, list(shares.values()))
    return {key: replace(dispute, withdrawn_minor=amount) for key, amount in zip(shares, withdrawn, strict=True)}


def card_refund(charge: CapturedCharge, amount_minor: int, purpose: RefundPurpose, reason: str, *, by: By) -> Refund:
    """A refund of a charge that a worker sends to the gateway at once."""
    return Refund(
        scope=charge.scope,
        id=new_id("rfd"),
        order_id=charge.order_id,
        method=RefundMethod.CARD,
        charge_id=charge.id,
        amount_minor=amount_minor,
        currency=charge.captured_currency or charge.currency,
        purpose=purpose,
        reason=reason,
        state=RefundState.DUE,
        requested_by=str(by.actor),
        created_at=by.at,
        next_attempt_at=by.at,
    )


async def add_refund(tx: Connection, money: OrderMoney, refund: Refund, *, actor: Actor) -> None:
    """The caller has checked the amount."""
    await store.insert_refund(tx, refund)
    money.refunds.append(refund)
    await _have_mailed(tx, refund, refund.created_at)
    await record_all(tx, [entry_of(refund, "refund.requested", before=None)], by=actor.at(refund.created_at))
    await record_refund(tx, refund, refund.created_at)


async def change_refund(tx: Connection, money: OrderMoney, refund: Refund, action: str, *, by: By) -> bool:
    """Store a new state; false if the stored state is not the one that was read."""
    old = next(each for each in money.refunds if each.id == refund.id)
    if not await store.update_refund(tx, refund, old.state):
        return False
    money.refunds = store.with_update(money.refunds, refund)
    if old.state is not refund.state:
        await _have_mailed(tx, refund, by.at)
        await record_all(tx, [entry_of(refund, action, before=old.state)], by=by)
        if refund.state is not RefundState.DUE:
            await record_refund(tx, refund, by.at)
    return True


async def _have_mailed(tx: Connection, refund: Refund, now: datetime) -> None:
    """The payer gets a mail once the money is on its way, however the refund was made."""
    if refund.state is RefundState.SUCCEEDED:
        row = OrderMailRow(refund.scope, refund.order_id, OrderMailKind.REFUND, refund.id, refund.amount_minor)
        await add_mails(tx, [row], now)


def entry_of(refund: Refund, action: str, *, before: RefundState | None) -> Entry:
    return entry_in(
        refund.scope,
        action,
        refund.id,
        before=None if before is None else {"state": before},
        after={"state": refund.state},
        order_id=refund.order_id,
        amount=f"{format_money(refund.amount_minor, refund.currency)} {refund.currency}",
        method=refund.method,
        purpose=refund.purpose,
        reason=refund.reason,
        **({} if refund.message is None else {"message": refund.message}),
    )


async def settle(tx: Connection, money: OrderMoney, *, by: By) -> Order:
    """Bring charges and order into line with the refunds and disputes. Call it last in the transaction.

    A paid order whose money went back before it was allocated is cancelled. What is left of payments that no order
    needs is refunded.
    """
    await settle_charges(tx, money, by.at)
    order, why = next_state(money)
    await correct_documents(tx, [(money.order, money.refunds)], by=by)
    await credit_ended(tx, money, why, by=by)
    return await finish_settling(tx, money, order, why, by=by)


def next_state(money: OrderMoney) -> tuple[Order, CancellationReason | None]:
    """What the order shows of its money, and why it is cancelled, if it is."""
    order = structs.replace(money.order, payment_state=_payment_state(money), refunded_minor=_refunded_minor(money))
    return order, _ended_by_gateway(money, order)


async def credit_ended(tx: Connection, money: OrderMoney, why: CancellationReason | None, *, by: By) -> None:
    """Take an order whose payment the gateway has given back off its document. It is cancelled afterwards."""
    if why is None:
        return
    is_lost = why is CancellationReason.DISPUTE_LOST
    await credit_order(
        tx,
        money.order,
        cause=CreditCause.CANCELLATION,
        reason="Payment reversed by the card issuer" if is_lost else "Refunded at the card gateway",
        by=by,
        refund_id=None if is_lost else money.of_order()[-1].id,
    )


async def finish_settling(
    tx: Connection, money: OrderMoney, order: Order, why: CancellationReason | None, *, by: By
) -> Order:
    """The last part of `settle`, which appends events."""
    if money.disputes:
        await note_dispute(tx, order, is_open=money.has_open_dispute)
    if why is None:
        await _plan_owed(tx, money, by=by)
        return await _store(tx, money, order, by.at)
    money.order = structs.replace(order, status=OrderStatus.CANCELLED)
    await _plan_owed(tx, money, by=by)
    return await release_order(tx, order, why, by=by, reason=None)


async def _store(tx: Connection, money: OrderMoney, order: Order, now: datetime) -> Order:
    before = money.order
    is_held = order.payment_state is PaymentState.DISPUTED
    if before.payment_state is PaymentState.DISPUTED and not is_held and order.auto_advance:
        await wake_paid(tx, order)
    if (order.payment_state, order.refunded_minor) != (before.payment_state, before.refunded_minor):
        await show_payment(tx, order, now)
    return order


async def settle_charges(tx: Connection, money: OrderMoney, now: datetime) -> None:
    """A charge of which nothing is left is `refunded`. One whose refund failed later is not."""
    settled = []
    for charge in money.charges:
        status = charge.status
        if status is not ChargeStatus.MISMATCHED:
            gone = refunded(money.of_charge(charge))
            if charge.is_shared:
                gone = await store.sum_succeeded(tx, charge)
            is_gone = charge.captured_minor is not None and gone >= charge.captured_minor
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
    # A gram of a tonne may cost nothing.
    return PaymentState.REFUNDED if money.is_gone and money.order.amount_due_minor else PaymentState.PAID


def _refunded_minor(money: OrderMoney) -> int:
    """At most what the order costs. More goes back of an accepted payment that was higher, or by hand and by card.

    Without what was taken off the order: that is no longer in what it costs.
    """
    refunds = [each for each in money.of_order() if each.purpose is not RefundPurpose.REDUCTION]
    refunded_minor, due = refunded(refunds), money.order.amount_due_minor
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


async def _plan_owed(tx: Connection, money: OrderMoney, *, by: By) -> None:
    """Plan the refund of what is left of payments that no order needs."""
    for charge in money.charges:
        is_over = money.order.status in _OVER or charge.is_surplus
        if charge.status is ChargeStatus.MISMATCHED or not is_over or money.left_of(charge) == 0:
            continue
        purpose = RefundPurpose.SURPLUS if charge.is_surplus else RefundPurpose.CANCELLATION
        reason = "The payment is not needed for the order"
        refund = card_refund(charge, money.left_of(charge), purpose, reason, by=by)
        refund = replace(refund, order_id=money.order.id)
        _log.info("refund_due", refund_id=refund.id, order_id=refund.order_id, charge_id=charge.id)
        await add_refund(tx, money, refund, actor=by.actor)
