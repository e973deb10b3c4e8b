"""Refund a paid order, wholly or in part, at the request of a client or an operator."""

from datetime import datetime

from msgspec import Struct

from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order
from tonne.money.refunds import store
from tonne.money.refunds.bank_refunds import plan_bank_refund
from tonne.money.refunds.errors import NothingToRefund, RefundAmountInvalid, RefundExceedsPaid
from tonne.money.refunds.model import Refund, RefundMethod, RefundPurpose, RefundState
from tonne.money.refunds.order_money import OrderMoney, add_refund, lock_money, settle
from tonne.platform.db.database import Connection
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import DECIMALS, charge_unit, format_money, parse_decimal, scaled
from tonne.platform.values.context import Actor, Scope, new_id
from tonne.selling.orders.errors import OrderNotFound


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
    actor: Actor,
    now: datetime,
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
    refund = await plan_refund(tx, money, request, RefundPurpose.GOODWILL, settings=settings, actor=actor, now=now)
    await settle(tx, money, actor=actor, now=now)
    return refund


async def plan_refund(
    tx: Connection,
    money: OrderMoney,
    request: RefundRequest,
    purpose: RefundPurpose,
    *,
    settings: Settings,
    actor: Actor,
    now: datetime,
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
    limit = limit_minor(settings.refund_approval_above, order.currency)
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
        requested_by=str(actor),
        idempotency_key=None if request.idempotency is None else request.idempotency.key,
        request_digest=None if request.idempotency is None else request.idempotency.digest,
        created_at=now,
        next_attempt_at=now if by_card and not needs_approval else None,
    )
    await add_refund(tx, money, refund, actor=actor)
    if not needs_approval:
        await release_refund(tx, money, refund, actor=actor, now=now)
    return refund


async def release_refund(tx: Connection, money: OrderMoney, refund: Refund, *, actor: Actor, now: datetime) -> None:
    """Plan the returns of a refund by bank that is due, and issue its credit note, if the order is on an invoice.

    The credit note of a cancellation is issued with the cancellation.
    """
    if refund.method is RefundMethod.BANK:
        await plan_bank_refund(tx, money, refund, actor=actor, now=now)
    if refund.purpose is RefundPurpose.GOODWILL:
        await credit_order(
            tx,
            money.order,
            refund.amount_minor,
            cause=CreditCause.REFUND,
            reason=refund.reason,
            actor=actor,
            now=now,
            refund_id=refund.id,
        )


def _why_nothing(money: OrderMoney) -> str | None:
    if money.paid_minor == 0:
        return "Nothing was paid for this order, so there is nothing to refund."
    if any(each.withdrawn_minor for each in money.disputes):
        return "The payer has disputed this payment at their bank: the gateway has taken the money back already."
    return None
