"""Compare a charge that paid for an invoice with the gateway's record. What happens to it concerns all its orders.

A refund that began at the gateway is divided among the orders by what is left of each, and a dispute by what was paid
for each, both by largest remainder.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog

from tonne.money.cards.captured_store import CapturedCharge, find_captured_any_account, finish_check, lock_shared
from tonne.money.cards.gateways.card import RecordedPayment, RecordedRefund
from tonne.money.cards.invoice_charge_store import wake_card_invoices
from tonne.money.invoices.issuing.billed_order_store import list_paid_shares
from tonne.money.invoices.store import list_open_by_card, wake_open
from tonne.money.refunds import make_refunds, order_money, store
from tonne.money.refunds.correct_documents import correct_documents
from tonne.money.refunds.disputes import dispute_store
from tonne.money.refunds.model import Refund, RefundPurpose, RefundState, exceeding, refundable
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import apportion
from tonne.platform.values.context import Mode, Scope, replace
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.queue import list_retiring, lock_orders, wake_waiting
from tonne.supply.stock.parcels.instructed_parcels import close_test_units

# Their money has left the gateway, or is about to.
_SENT = {RefundState.PENDING, RefundState.SUCCEEDED}
_log = structlog.get_logger()


async def record_shared_payment(
    tx: Connection, charge: CapturedCharge, payment: RecordedPayment, *, held_until: datetime | None, now: datetime
) -> None:
    """Store what is new at the gateway and settle all orders of the invoice. Call it last in the transaction."""
    shares = await list_paid_shares(tx, charge)
    orders = await lock_orders(tx, list(shares))
    await lock_shared(tx, [charge])
    if held_until is not None:
        await finish_check(tx, charge, held_until, None)
    # As it is now: it may have changed while the gateway was asked.
    charge = await find_captured_any_account(tx, charge.id) or charge
    refunds: dict[str, list[Refund]] = defaultdict(list)
    for refund in await store.list_of_charge(tx, charge):
        refunds[refund.order_id].append(refund)
    moneys = {
        key: order_money.OrderMoney(orders[key.id], [charge], refunds[key.id], [], 0, share_minor=share, is_billed=True)
        for key, share in shares.items()
    }
    for money in moneys.values():
        charge = await make_refunds.store_amount(tx, money, charge, payment, now)
    for found in payment.refunds:
        await _record_refund(tx, moneys, charge, found, now)
    for dispute in payment.disputes:
        await make_refunds.store_found_dispute(tx, charge, dispute, now)
    await _divide_disputes(tx, moneys, charge, shares)
    for money in moneys.values():
        await make_refunds.cancel_exceeding(tx, money, charge, now)
    await _cancel_beyond_charge(tx, moneys, charge, now)
    await _refund_surplus(tx, moneys, charge, now)
    await _settle(tx, moneys, now)


async def _divide_disputes(
    tx: Connection,
    moneys: Mapping[OrderKey, order_money.OrderMoney],
    charge: CapturedCharge,
    shares: Mapping[OrderKey, int],
) -> None:
    for dispute in await dispute_store.list_disputes_of_charge(tx, charge):
        for key, part in order_money.divide_dispute(dispute, shares).items():
            moneys[key].disputes.append(part)


async def _cancel_beyond_charge(
    tx: Connection, moneys: Mapping[OrderKey, order_money.OrderMoney], charge: CapturedCharge, now: datetime
) -> None:
    """Cancel refunds that fit their order, but not what disputes have left of the charge.

    A dispute is divided by what was paid for each order. If one was refunded before, the others lose more than that.
    """
    disputes = await dispute_store.list_disputes_of_charge(tx, charge)
    if not disputes:
        return
    of_refund = {refund.id: (money, refund) for money in moneys.values() for refund in money.of_charge(charge)}
    refunds = [refund for _, refund in of_refund.values()]
    for refund in exceeding(charge.captured_minor or 0, refunds, disputes):
        await make_refunds.cancel_refund(tx, of_refund[refund.id][0], refund, now)


async def _record_refund(
    tx: Connection,
    moneys: Mapping[OrderKey, order_money.OrderMoney],
    charge: CapturedCharge,
    found: RecordedRefund,
    now: datetime,
) -> None:
    ours = [
        (money, each)
        for money in moneys.values()
        for each in money.refunds
        if found.refund_id == each.id or found.reference == each.reference
    ]
    for money, refund in ours:
        await make_refunds.update_refund(tx, money, refund, found, now)
    if ours or found.kind not in make_refunds.STATES:
        return
    parts = _divide_refund(list(moneys.values()), found.amount_minor)
    for money, amount_minor in parts:
        refund = make_refunds.found_refund(charge, found, amount_minor, now)
        refund = replace(refund, order_id=money.order.id)
        await order_money.add_refund(tx, money, refund, actor=make_refunds.CHECK_ACTOR)
    _log.warning("refund_found", charge_id=charge.id, reference=found.reference, orders=len(parts))


def _divide_refund(
    moneys: Sequence[order_money.OrderMoney], amount_minor: int
) -> list[tuple[order_money.OrderMoney, int]]:
    """By what is left of each order. Refunds of ours that were not sent yet do not count: they are cancelled."""
    left = [
        refundable(
            money.share_minor,
            [each for each in money.refunds if each.state in _SENT and each.purpose is not RefundPurpose.SURPLUS],
            money.disputes,
        )
        for money in moneys
    ]
    if sum(left) == 0:
        left = [money.share_minor for money in moneys]
    parts = apportion(amount_minor, left)
    return [(money, part) for money, part in zip(moneys, parts, strict=True) if part > 0]


async def _refund_surplus(
    tx: Connection, moneys: Mapping[OrderKey, order_money.OrderMoney], charge: CapturedCharge, now: datetime
) -> None:
    """An order was cancelled while the card was charged: what it costs goes back."""
    surplus = (charge.captured_minor or 0) - sum(money.share_minor for money in moneys.values())
    surplus -= sum(
        each.amount_minor
        for money in moneys.values()
        for each in money.refunds
        if each.purpose is RefundPurpose.SURPLUS and each.is_active
    )
    if surplus <= 0:
        return
    money = next(each for each in moneys.values() if each.order.id == charge.order_id)
    reason = "An order of the invoice was cancelled while the card was charged"
    refund = order_money.card_refund(
        charge, surplus, RefundPurpose.SURPLUS, reason, by=make_refunds.CHECK_ACTOR.at(now)
    )
    await order_money.add_refund(tx, money, refund, actor=make_refunds.CHECK_ACTOR)


async def _settle(tx: Connection, moneys: Mapping[OrderKey, order_money.OrderMoney], now: datetime) -> None:
    """Everything is locked before the first event is appended."""
    first = next(iter(moneys.values()))
    await order_money.settle_charges(tx, first, now)
    refunded = [(money.order, money.refunds) for money in moneys.values()]
    await correct_documents(tx, refunded, by=make_refunds.CHECK_ACTOR.at(now))
    ends = []
    for money in moneys.values():
        money.charges = first.charges
        order, why = order_money.next_state(money)
        await order_money.credit_ended(tx, money, why, by=make_refunds.CHECK_ACTOR.at(now))
        ends.append((money, order, why))
    for money, order, why in ends:
        await order_money.finish_settling(tx, money, order, why, by=make_refunds.CHECK_ACTOR.at(now))


async def resume_orders(tx: Connection, scope: Scope, *, service_name: str, now: datetime) -> None:
    """Call it in the transaction in which the account is set to advance automatically."""
    if scope.mode is not Mode.TEST:
        return
    await wake_waiting(tx, scope, now)
    await wake_open(tx, scope, now)
    await wake_card_invoices(tx, scope, await list_open_by_card(tx, scope), now)
    for order_id in await list_retiring(tx, scope):
        # Units that were opened while the account waited would stay open for the pooling time of live accounts.
        await close_test_units(tx, scope, order_id, service_name=service_name, now=now)
