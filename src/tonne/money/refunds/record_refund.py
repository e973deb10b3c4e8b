"""Store refunds and disputes as the gateway has them on record."""

from datetime import datetime

import structlog

from tonne.money.cards.captured_store import CapturedCharge, update_captured
from tonne.money.cards.gateways.payment_record import (
    DisputeState,
    RecordedDispute,
    RecordedPayment,
    RecordedRefund,
    RefundOutcome,
    RefundResult,
)
from tonne.money.refunds.disputes.dispute_store import list_disputes_of_charge, store_dispute
from tonne.money.refunds.make_refunds import apply_result
from tonne.money.refunds.model import Dispute, Refund, RefundPurpose, RefundState, exceeding
from tonne.money.refunds.order_money import OrderMoney, card_refund, change_refund
from tonne.platform.db.database import Connection
from tonne.platform.events.audit.record import Entry, entry_in, record_all
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import job_actor, new_id
from tonne.platform.values.replace import replace
from tonne.platform.values.same_named import same_named

ACTOR = job_actor("check_payments")
STATES = {RefundOutcome.REFUNDED: RefundState.SUCCEEDED, RefundOutcome.PENDING: RefundState.PENDING}

_log = structlog.get_logger()


async def cancel_exceeding(tx: Connection, money: OrderMoney, charge: CapturedCharge, now: datetime) -> None:
    """Cancel refunds of ours that no longer fit, because money went back another way."""
    captured, refunds = charge.captured_minor or 0, money.of_charge(charge)
    if charge.is_shared:
        captured, refunds = money.share_minor, [r for r in refunds if r.purpose is not RefundPurpose.SURPLUS]
    for refund in exceeding(captured, refunds, money.disputes_of(charge)):
        await cancel_refund(tx, money, refund, now)


async def cancel_refund(tx: Connection, money: OrderMoney, refund: Refund, now: datetime) -> None:
    _log.warning("refund_cancelled", refund_id=refund.id, order_id=refund.order_id)
    message = "The money went back another way."
    cancelled = replace(refund, state=RefundState.CANCELLED, settled_at=now, next_attempt_at=None, message=message)
    await change_refund(tx, money, cancelled, "refund.cancelled", actor=ACTOR, now=now)


def found_refund(charge: CapturedCharge, found: RecordedRefund, amount_minor: int, now: datetime) -> Refund:
    """A refund that somebody has made at the gateway: all of it, or the part of one order."""
    purpose = RefundPurpose.SURPLUS if charge.is_surplus else RefundPurpose.GATEWAY
    refund = card_refund(charge, amount_minor, purpose, "Refunded at the gateway", actor=ACTOR, now=now)
    state = STATES[found.kind]
    settled_at = now if state is RefundState.SUCCEEDED else None
    return replace(refund, state=state, reference=found.reference, settled_at=settled_at, next_attempt_at=None)


async def store_amount(
    tx: Connection, money: OrderMoney, charge: CapturedCharge, payment: RecordedPayment, now: datetime
) -> CapturedCharge:
    if (charge.captured_minor, charge.captured_currency) == (payment.captured_minor, payment.currency):
        return charge
    charge = replace(charge, captured_minor=payment.captured_minor, captured_currency=payment.currency)
    await update_captured(tx, charge, now=now)
    money.charges = [charge if each.id == charge.id else each for each in money.charges]
    return charge


async def update_refund(
    tx: Connection, money: OrderMoney, refund: Refund, found: RecordedRefund, now: datetime
) -> None:
    """A refund may fail after it succeeded. One that began at the gateway is not repeated: nobody asked us for it."""
    state = STATES.get(found.kind, RefundState.FAILED)
    if state is refund.state or refund.state is RefundState.FAILED:
        return
    if refund.state is RefundState.CANCELLED and state is RefundState.FAILED:
        return
    if refund.state is RefundState.SUCCEEDED and state is RefundState.PENDING:
        # Read before another worker saw that it had succeeded: no gateway takes that back except as a failure.
        return
    if state is RefundState.FAILED:
        _log.error("refund_failed", refund_id=refund.id, order_id=refund.order_id, reason=found.message)
    result = RefundResult(found.kind, found.reference, found.message)
    began_here = found.refund_id == refund.id
    if began_here:
        await apply_result(tx, money, refund, result, now=now)
        return
    is_over = state is not RefundState.PENDING
    changed = replace(
        refund, state=state, message=found.message, settled_at=now if is_over else None, next_attempt_at=None
    )
    await change_refund(tx, money, changed, f"refund.{state}", actor=ACTOR, now=now)


async def store_found_dispute(tx: Connection, charge: CapturedCharge, found: RecordedDispute, now: datetime) -> None:
    """The caller has locked the orders of the charge."""
    stored = await list_disputes_of_charge(tx, charge)
    known = next((each for each in stored if each.reference == found.reference), None)
    dispute = same_named(
        Dispute,
        found,
        scope=charge.scope,
        id=new_id("dsp") if known is None else known.id,
        order_id=None if charge.is_shared else charge.order_id,
        charge_id=charge.id,
        currency=charge.captured_currency or charge.currency,
        recorded_at=now if known is None else known.recorded_at,
        closed_at=None if found.state is DisputeState.OPENED else now,
    )
    if not await store_dispute(tx, dispute, now):
        return
    log = _log.info if dispute.state is DisputeState.WON else _log.warning
    log("dispute_changed", dispute_id=dispute.id, order_id=dispute.order_id, state=dispute.state)
    if known is None or known.state is not dispute.state:
        await record_all(tx, [_entry(dispute, known)], actor=ACTOR, at=now)


def _entry(dispute: Dispute, known: Dispute | None) -> Entry:
    return entry_in(
        dispute.scope,
        f"dispute.{dispute.state}",
        dispute.id,
        before=None if known is None else {"state": known.state},
        after={"state": dispute.state},
        order_id=dispute.order_id,
        charge_id=dispute.charge_id,
        amount=f"{format_money(dispute.amount_minor, dispute.currency)} {dispute.currency}",
        reason=dispute.reason,
    )
