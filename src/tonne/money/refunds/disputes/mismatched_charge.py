"""What operators decide about a payment that arrived with another amount: send it back, or accept it for the order."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tonne.money.cards import captured_store
from tonne.money.cards.charge_store import find_pending
from tonne.money.cards.errors import CardGatewayUnavailable, StripeNotConfigured
from tonne.money.cards.gateways.card import MODE_MISMATCH, CardGateway, PaymentNotRead, RecordedPayment
from tonne.money.cards.invoice_charge_store import has_open_charge_any_account, list_invoices_of_charge
from tonne.money.cards.model import ChargeStatus
from tonne.money.invoices.cancel_order import cancel_order
from tonne.money.invoices.credit_notes.cancel_invoice import cancel_invoice
from tonne.money.invoices.store import find_invoices_any_account
from tonne.money.refunds.errors import ChargeNotMismatched
from tonne.money.refunds.model import RefundPurpose
from tonne.money.refunds.order_money import OrderMoney, add_refund, card_refund, lock_money
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import By, replace
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.model import CancellationReason, Order, OrderStatus
from tonne.selling.orders.move_order import mark_paid

WRITTEN_OFF = "A payment of the gateway's other mode: no real money arrived for this order."


async def read_mismatched(
    connection: Connection, gateways: Mapping[str, CardGateway], charge_id: str
) -> RecordedPayment | None:
    """What the gateway captured; None if it captured it in its other mode. Call it outside of a transaction."""
    charge = await captured_store.find_captured_any_account(connection, charge_id)
    if charge is None or charge.status is not ChargeStatus.MISMATCHED:
        raise ChargeNotMismatched
    if charge.code == MODE_MISMATCH:
        return None
    gateway = gateways.get(charge.gateway)
    if gateway is None:
        raise StripeNotConfigured
    try:
        return await gateway.read_payment(charge.reference)
    except PaymentNotRead as error:
        raise CardGatewayUnavailable(f"The payment cannot be read at the card gateway: {error}") from error


async def return_mismatched(
    tx: Connection,
    charge_id: str,
    payment: RecordedPayment | None,
    *,
    by: By,
    reason: str,
) -> Order:
    """Send the payment back and cancel its order, or all orders of its invoice, if they still wait. Call it last.

    An order with another open charge waits for that one. Without `payment`, nothing is sent back: it belongs to the
    gateway's other mode.
    """
    money, charge = await _lock(tx, charge_id)
    if payment is None:
        await captured_store.write_off(tx, charge, WRITTEN_OFF)
        status = ChargeStatus.FAILED
    else:
        status = ChargeStatus.REFUND_DUE
        await give_back(tx, charge, payment.captured_minor, payment.currency, by.at)
    await _record(tx, charge, "charge.returned", status, by=by, reason=reason)
    code = CancellationReason.PAYMENT_MISMATCHED
    if charge.invoice_id is not None:
        ids = await list_invoices_of_charge(tx, charge.scope, charge.id)
        for invoice in await find_invoices_any_account(tx, ids):
            if not await has_open_charge_any_account(tx, [invoice.id]):
                await cancel_invoice(tx, invoice, by=by, reason=reason, code=code)
        return money.order
    if money.order.status is not OrderStatus.PLACED or await find_pending(tx, money.order) is not None:
        return money.order
    return await cancel_order(tx, money.order, by=by, reason=reason, code=code)


async def give_back(
    tx: Connection, charge: captured_store.CapturedCharge, captured: int, currency: str, now: datetime
) -> None:
    """Have a worker plan the refund of all that the gateway has of a charge."""
    unneeded = replace(
        charge,
        status=ChargeStatus.REFUND_DUE,
        is_surplus=True,
        captured_minor=captured,
        captured_currency=currency,
    )
    await captured_store.update_captured(tx, unneeded, now=now, check_at=now)


async def accept_mismatched(
    tx: Connection, charge_id: str, payment: RecordedPayment | None, *, by: By, reason: str
) -> Order:
    """Let the payment pay for its order. What arrived above the amount is refunded. Call it last in the transaction."""
    money, charge = await _lock(tx, charge_id)
    if charge.invoice_id is not None:
        raise ChargeNotMismatched(
            "The payment was made for an invoice of several orders. With another amount it cannot pay for all of them. "
            "Send it back with `tonne charge refund`."
        )
    order = money.order
    if payment is None or payment.mode is not order.scope.mode or payment.currency != order.currency:
        raise ChargeNotMismatched(
            "The payment has another currency, or belongs to the gateway's other mode, so it cannot pay for the order. "
            "Send it back with `tonne charge refund`."
        )
    if order.status is not OrderStatus.PLACED:
        raise TransitionInvalid(
            f"The order is {order.status}: it waits for no payment. Send it back with `tonne charge refund`."
        )
    if await find_pending(tx, order) is not None:
        raise TransitionInvalid(
            "Another payment of the order is open and may still succeed. Wait until `tonne order show` says what "
            "became of it, then accept this payment or send it back."
        )
    accepted = replace(
        charge,
        status=ChargeStatus.CAPTURED,
        captured_minor=payment.captured_minor,
        captured_currency=payment.currency,
    )
    # The gateway's record may have refunds and disputes already.
    await captured_store.update_captured(tx, accepted, now=by.at, check_at=by.at)
    await captured_store.mark_accepted(tx, accepted, by.at)
    await _record(tx, charge, "charge.accepted", ChargeStatus.CAPTURED, by=by, reason=reason)
    if (surplus := payment.captured_minor - charge.amount_minor) > 0:
        reason = "More arrived than the order costs"
        refund = card_refund(accepted, surplus, RefundPurpose.SURPLUS, reason, by=by)
        await add_refund(tx, money, refund, actor=by.actor)
    return await mark_paid(tx, order, by.at)


async def _lock(tx: Connection, charge_id: str) -> tuple[OrderMoney, captured_store.CapturedCharge]:
    found = await captured_store.find_captured_any_account(tx, charge_id)
    money = None if found is None else await lock_money(tx, found.scope, found.order_id)
    # Under the lock. A charge for an invoice is not among those of its first order.
    charge = await captured_store.find_captured_any_account(tx, charge_id)
    if money is None or charge is None or charge.status is not ChargeStatus.MISMATCHED:
        raise ChargeNotMismatched
    return money, charge


async def _record(
    tx: Connection,
    charge: captured_store.CapturedCharge,
    action: str,
    status: ChargeStatus,
    *,
    by: By,
    reason: str,
) -> None:
    requested = f"{format_money(charge.amount_minor, charge.currency)} {charge.currency}"
    details: dict[str, Any] = {"order_id": charge.order_id, "requested": requested, "reason": reason}
    change: dict[str, Any] = {"before": {"status": charge.status}, "after": {"status": status}}
    await audit.record(tx, charge.scope, action, by=by, subject_id=charge.id, **change, **details)
