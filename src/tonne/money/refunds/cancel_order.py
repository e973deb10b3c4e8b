"""Cancel an order: before it is paid, or afterwards with a refund of what was paid; and which accounts may do so."""

from datetime import datetime

from msgspec import Struct

from tonne.money.cards.gateways.card import MODE_MISMATCH
from tonne.money.cards.model import ChargeStatus
from tonne.money.invoices.cancel_order import cancel_order
from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order
from tonne.money.refunds.disputes.mismatched_charge import give_back
from tonne.money.refunds.errors import RefundNotAllowed
from tonne.money.refunds.model import RefundPurpose
from tonne.money.refunds.order_money import OrderMoney, lock_money, release_order
from tonne.money.refunds.request_refund import RefundRequest, plan_refund
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, Scope
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.errors import OrderNotFound, TransitionInvalid
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails
from tonne.selling.orders.model import CancellationReason, Order, OrderStatus

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


_ALLOCATED = (OrderStatus.RETIRING, OrderStatus.COMPLETE)
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
    actor: Actor,
    now: datetime,
) -> Order:
    """Call it last in the transaction. Raises TransitionInvalid if the order can no longer be cancelled."""
    money = await lock_money(tx, scope, order_id)
    if money is None:
        raise OrderNotFound
    reason = (cancellation.reason or "").strip() or None
    order = money.order
    if order.status in _ALLOCATED and cancellation.with_refund:
        raise TransitionInvalid(GOODWILL_ONLY)
    if order.status is not OrderStatus.PAID:
        # A payment that arrived with another amount goes back with the cancellation.
        for charge in money.charges:
            if charge.status is ChargeStatus.MISMATCHED and charge.captured_minor and charge.code != MODE_MISMATCH:
                await give_back(tx, charge, charge.captured_minor, charge.captured_currency or charge.currency, now)
        code = CancellationReason.REQUESTED_BY_CLIENT if cancellation.by_member else None
        return await cancel_order(tx, order, actor=actor, reason=reason, now=now, code=code)
    if not cancellation.with_refund:
        raise TransitionInvalid(NEEDS_REFUND)
    by_client = cancellation.by_member or actor.kind is ActorKind.KEY
    await require_permission(tx, scope, actor, is_operator=not by_client)
    code = CancellationReason.REQUESTED_BY_CLIENT if by_client else CancellationReason.REQUESTED_BY_OPERATOR
    await _refund_and_credit(tx, money, reason, settings=settings, actor=actor, now=now)
    return await release_order(tx, order, code, actor=actor, reason=reason, now=now)


async def _refund_and_credit(
    tx: Connection, money: OrderMoney, reason: str | None, *, settings: Settings, actor: Actor, now: datetime
) -> None:
    """In the same transaction as the cancellation: no paid order is cancelled without a refund."""
    refund = None
    if money.refundable_minor:
        request = RefundRequest(amount_minor=None, reason=reason or "The order was cancelled")
        purpose = RefundPurpose.CANCELLATION
        refund = await plan_refund(tx, money, request, purpose, settings=settings, actor=actor, now=now)
    note = await credit_order(
        tx,
        money.order,
        cause=CreditCause.CANCELLATION,
        reason=reason,
        actor=actor,
        now=now,
        refund_id=None if refund is None else refund.id,
    )
    if money.order.payment_method is PaymentMethod.CARD and note is None:
        # Those who got an invoice get the credit note.
        # The mail names the reason that is stored with the cancellation.
        await add_mails(tx, [_cancellation_mail(money.order)], now)


def _cancellation_mail(order: Order) -> OrderMailRow:
    return OrderMailRow(order.scope, order.id, OrderMailKind.CANCELLED, order.id, order.amount_due_minor or 0)
