"""Refund a paid order, wholly or in part, or cancel an order, at the request of a client or an operator.

A cancelled order that was paid is refunded. Not every account may cancel its orders.
"""

from datetime import datetime

from msgspec import Struct

from tonne.money.cards.gateways.card import MODE_MISMATCH
from tonne.money.cards.model import ChargeStatus
from tonne.money.invoices.cancel_order import cancel_order
from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order
from tonne.money.refunds import store
from tonne.money.refunds.bank_refunds import plan_bank_refund
from tonne.money.refunds.disputes.mismatched_charge import give_back
from tonne.money.refunds.errors import NothingToRefund, RefundAmountInvalid, RefundExceedsPaid, RefundNotAllowed
from tonne.money.refunds.model import Refund, RefundMethod, RefundPurpose, RefundState
from tonne.money.refunds.order_money import OrderMoney, add_refund, lock_money, release_order, settle
from tonne.platform.db.database import Connection
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import DECIMALS, charge_unit, format_money, parse_decimal, scaled
from tonne.platform.values.context import Actor, ActorKind, By, Scope, new_id
from tonne.platform.values.language import N_
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.errors import OrderFulfilled, OrderNotFound, TransitionInvalid
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails
from tonne.selling.orders.model import CancellationReason, Order, OrderStatus, PaymentState
from tonne.selling.orders.release_order import FULFILLED
from tonne.selling.users.guarded_settings import approved_settings


class RefundRequest(Struct, frozen=True, kw_only=True):
    """`amount_minor` None: all that can still be refunded."""

    amount_minor: int | None
    reason: str
    idempotency: Idempotency | None = None


def parse_amount(text: str, currency: str) -> int:
    """`5.00` in minor units. Raises RefundAmountInvalid."""
    decimals = DECIMALS[currency]
    amount = parse_decimal(text)
    minor = None if amount is None else scaled(amount, decimals)
    if not minor:
        example = format_money(5 * 10**decimals, currency)
        raise RefundAmountInvalid(
            f"The amount of a refund must be greater than zero, with at most {decimals} decimals for {currency}: for "
            f"example {example}.",
            field="amount",
        )
    return minor


async def request_refund(
    tx: Connection,
    scope: Scope,
    order_id: str,
    request: RefundRequest,
    *,
    settings: Settings,
    by: By,
) -> Refund:
    """Plan a refund that changes neither the status nor the grams of the order. Call it last in the transaction.

    Raises RefundKeyTaken if the idempotency key was used before.
    """
    money = await lock_money(tx, scope, order_id)
    if money is None:
        raise OrderNotFound
    key = None if request.idempotency is None else request.idempotency.key
    # Before the amount is checked: a repeated request must not fail because the first one has used it up.
    if key is not None and await store.find_by_key(tx, scope, key) is not None:
        raise store.RefundKeyTaken
    refund = await plan_refund(tx, money, request, RefundPurpose.GOODWILL, settings=settings, by=by)
    await settle(tx, money, by=by)
    return refund


async def plan_refund(
    tx: Connection,
    money: OrderMoney,
    request: RefundRequest,
    purpose: RefundPurpose,
    *,
    settings: Settings,
    by: By,
) -> Refund:
    """Write the refund of a locked order. The caller settles."""
    order, left = money.order, money.refundable_minor
    amount = left if request.amount_minor is None else request.amount_minor
    if left == 0:
        raise NothingToRefund(_why_nothing(money))
    if amount > left:
        raise RefundExceedsPaid(
            f"{format_money(left, order.currency)} {order.currency} can still be refunded of this order, not "
            f"{format_money(amount, order.currency)}."
        )
    limit = limit_minor((await approved_settings(tx, settings)).refund_approval_above, order.currency)
    needs_approval = limit is not None and amount > limit
    by_card = money.is_by_card
    if by_card and amount % charge_unit(order.currency):
        unit = format_money(charge_unit(order.currency), order.currency)
        raise RefundAmountInvalid(f"A refund to a card must be a multiple of {unit} {order.currency}.", field="amount")
    charge = money.paying
    refund = Refund(
        scope=order.scope,
        id=new_id("rfd"),
        order_id=order.id,
        method=RefundMethod.CARD if by_card else RefundMethod.BANK,
        charge_id=charge.id if by_card and charge is not None else None,
        amount_minor=amount,
        currency=order.currency,
        purpose=purpose,
        reason=request.reason,
        state=RefundState.APPROVAL if needs_approval else RefundState.DUE,
        requested_by=str(by.actor),
        idempotency_key=None if request.idempotency is None else request.idempotency.key,
        request_digest=None if request.idempotency is None else request.idempotency.digest,
        created_at=by.at,
        next_attempt_at=by.at if by_card and not needs_approval else None,
    )
    await add_refund(tx, money, refund, actor=by.actor)
    if not needs_approval:
        await release_refund(tx, money, refund, by=by)
    return refund


async def release_refund(tx: Connection, money: OrderMoney, refund: Refund, *, by: By) -> None:
    """Plan the returns of a refund by bank that is due.

    The credit note of a cancellation is issued with the cancellation, that of another refund when it has succeeded.
    """
    if refund.method is RefundMethod.BANK:
        await plan_bank_refund(tx, money, refund, by=by)


def _why_nothing(money: OrderMoney) -> str | None:
    if money.paid_minor == 0:
        return "Nothing was paid for this order, so there is nothing to refund."
    if any(each.withdrawn_minor for each in money.disputes):
        return "The payer has disputed this payment at their bank: the gateway has taken the money back already."
    return None


ALLOWS_REFUNDS = "SELECT refunds_by_api FROM accounts WHERE organisation_id = $1 AND mode = $2 AND id = $3"


async def allows_refunds(connection: Connection, scope: Scope) -> bool:
    """Read with every request: a permission that was taken back must not last in a cache."""
    return bool(await connection.fetchval(ALLOWS_REFUNDS, scope.organisation_id, scope.mode, scope.account_id))


async def require_permission(
    connection: Connection, scope: Scope, actor: Actor, *, is_operator: bool | None = None
) -> None:
    """Raises RefundNotAllowed. For a signed-in user, say whether they act as an operator or as a member."""
    if is_operator is None:
        is_operator = actor.kind is not ActorKind.KEY
    if not is_operator and not await allows_refunds(connection, scope):
        raise RefundNotAllowed


GOODWILL_ONLY = (
    "Credits are allocated to this order, so it can no longer be cancelled. Only a goodwill refund remains, which "
    "leaves the order as it is: `tonne order refund`, or POST /v1/orders/{id}/refunds."
)
NEEDS_REFUND = (
    'The order is paid. To cancel it and refund the payment, send "refund": true, or use `tonne order cancel --refund`.'
)


class Cancellation(Struct, frozen=True, kw_only=True):
    """`with_refund`: also if the order is paid. `by_member`: for their own organisation, as its API key would."""

    reason: str | None
    with_refund: bool
    by_member: bool = False


async def cancel_by_id(
    tx: Connection,
    scope: Scope,
    order_id: str,
    cancellation: Cancellation,
    *,
    settings: Settings,
    by: By,
) -> Order:
    """Call it last in the transaction. Raises TransitionInvalid if the order can no longer be cancelled."""
    money = await lock_money(tx, scope, order_id)
    if money is None:
        raise OrderNotFound
    reason = (cancellation.reason or "").strip() or None
    order = money.order
    if order.status in FULFILLED and cancellation.with_refund:
        raise OrderFulfilled(GOODWILL_ONLY)
    if order.status is not OrderStatus.PAID:
        # A payment that arrived with another amount goes back with the cancellation.
        for charge in money.charges:
            if charge.status is ChargeStatus.MISMATCHED and charge.captured_minor and charge.code != MODE_MISMATCH:
                await give_back(tx, charge, charge.captured_minor, charge.captured_currency or charge.currency, by.at)
        code = CancellationReason.REQUESTED_BY_CLIENT if cancellation.by_member else None
        return await cancel_order(tx, order, by=by, reason=reason, code=code)
    if not cancellation.with_refund:
        raise TransitionInvalid(NEEDS_REFUND)
    by_client = cancellation.by_member or by.actor.kind is ActorKind.KEY
    if not order.is_in_window(by.at):
        await require_permission(tx, scope, by.actor, is_operator=not by_client)
    code = CancellationReason.REQUESTED_BY_CLIENT if by_client else CancellationReason.REQUESTED_BY_OPERATOR
    await _refund_and_credit(tx, money, reason, settings=settings, by=by)
    return await release_order(tx, order, code, by=by, reason=reason)


def can_payer_cancel(order: Order) -> bool:
    """Whether the customer who paid an order at checkout may still cancel it."""
    is_paid = order.status is OrderStatus.PAID and order.payment_state is PaymentState.PAID
    return is_paid and order.is_paid_at_checkout


async def cancel_by_payer(tx: Connection, scope: Scope, order_id: str, *, settings: Settings, now: datetime) -> Order:
    """Cancel the order of a customer who paid it at checkout, and refund all of it. Call it last in the transaction.

    Raises TransitionInvalid once credits are allocated: both lock the order, so that exactly one of the two happens.
    """
    money = await lock_money(tx, scope, order_id)
    if money is None:
        raise OrderNotFound
    if not can_payer_cancel(money.order):
        raise TransitionInvalid(N_("This order can no longer be cancelled. See below what became of it."))
    by = Actor(ActorKind.PAYER, money.order.offset_link_id or "").at(now)
    await _refund_and_credit(tx, money, None, settings=settings, by=by)
    return await release_order(tx, money.order, CancellationReason.REQUESTED_BY_CUSTOMER, by=by, reason=None)


async def _refund_and_credit(
    tx: Connection, money: OrderMoney, reason: str | None, *, settings: Settings, by: By
) -> None:
    """In the same transaction as the cancellation: no paid order is cancelled without a refund."""
    refund = None
    if money.refundable_minor:
        request = RefundRequest(amount_minor=None, reason=reason or "The order was cancelled")
        purpose = RefundPurpose.CANCELLATION
        refund = await plan_refund(tx, money, request, purpose, settings=settings, by=by)
    await credit_order(
        tx,
        money.order,
        cause=CreditCause.CANCELLATION,
        reason=reason,
        by=by,
        refund_id=None if refund is None else refund.id,
    )
    if money.order.payment_method is PaymentMethod.CARD and not money.is_billed:
        # Those who got an invoice get the credit note.
        # The mail names the reason that is stored with the cancellation.
        await add_mails(tx, [_cancellation_mail(money.order)], by.at)


def _cancellation_mail(order: Order) -> OrderMailRow:
    return OrderMailRow(order.scope, order.id, OrderMailKind.CANCELLED, order.id, order.amount_due_minor or 0)
