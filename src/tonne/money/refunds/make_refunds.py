"""Send due refunds to the gateway, and store refunds and disputes as the gateway has them on record."""

import asyncio
from collections.abc import Mapping
from datetime import datetime

import structlog

from tonne.money.cards.captured_store import CapturedCharge, request_checks_any_account, update_captured
from tonne.money.cards.gateways.card import (
    CardGateway,
    DisputeState,
    RecordedDispute,
    RecordedPayment,
    RecordedRefund,
    RefundOutcome,
    RefundResult,
)
from tonne.money.cards.model import RetrySchedule
from tonne.money.refunds.disputes.dispute_store import list_disputes_of_charge, store_dispute
from tonne.money.refunds.model import Dispute, Refund, RefundPurpose, RefundState, exceeding, next_attempt, next_look
from tonne.money.refunds.order_money import OrderMoney, add_refund, card_refund, change_refund, lock_money, settle
from tonne.money.refunds.store import DueRefund, claim_due, undo_sent
from tonne.platform.db.batches import RowJob, run_each
from tonne.platform.db.database import Connection
from tonne.platform.events.audit.record import Entry, entry_in, record_all
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import job_actor, new_id, replace, same_named

BATCH = 50
CONCURRENCY = 8
MAX_MESSAGE = 500
ACTOR = job_actor("make_refunds")

_log = structlog.get_logger()


class MakeRefunds(RowJob, frozen=True):
    """A worker job.

    The id of a refund is its idempotency key at the gateway: repeating it after a crash or a lost answer refunds
    nothing twice. Only after the gateway says that a refund failed is another one made, under a new id.
    """

    gateways: Mapping[str, CardGateway]
    schedule: RetrySchedule

    async def run_once(self) -> bool:
        """Process one batch; false if nothing is due."""
        due = await self.claim()
        if not due:
            return False
        await self.settle(await self.call_gateways(due))
        return True

    async def claim(self) -> list[DueRefund]:
        async with self.database.transaction() as tx:
            now = self.clock()
            return await claim_due(tx, now, now + self.schedule.lease(), limit=BATCH)

    async def call_gateways(self, due: list[DueRefund]) -> list[tuple[DueRefund, RefundResult]]:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def call_one(each: DueRefund) -> tuple[DueRefund, RefundResult]:
            async with slots:
                try:
                    return each, await self._call_gateway(each)
                except Exception:  # noqa: BLE001 - after any failure the refund is repeated later
                    _log.exception("card_gateway_failed", refund_id=each.refund.id, gateway=each.gateway)
                    return each, RefundResult(RefundOutcome.UNKNOWN)

        return await asyncio.gather(*(call_one(each) for each in due))

    async def settle(self, results: list[tuple[DueRefund, RefundResult]]) -> None:
        await run_each(
            results,
            self._settle,
            failure_event="refund_not_settled",
            describe=lambda result: {"refund_id": result[0].refund.id},
        )

    async def _call_gateway(self, due: DueRefund) -> RefundResult:
        gateway, refund = self.gateways.get(due.gateway), due.refund
        if gateway is None:
            return RefundResult(RefundOutcome.UNAVAILABLE, message=f"The gateway {due.gateway} is not configured.")
        return await gateway.refund(refund.id, due.charge_reference, refund.amount_minor, refund.currency)

    async def _settle(self, row: tuple[DueRefund, RefundResult]) -> None:
        due, result = row
        now = self.clock()
        async with self.database.transaction() as tx:
            money = await lock_money(tx, due.refund.scope, due.refund.order_id)
            refund = None if money is None else next((r for r in money.refunds if r.id == due.refund.id), None)
            # Another worker has stored a result, or the refund no longer fits, and the gateway has not made it.
            if money is None or refund is None or not _is_open(refund, result):
                return
            _log_result(refund, result)
            if result.kind is RefundOutcome.FAILED:
                # Somebody may have refunded at the gateway instead: then the next attempt is not needed.
                await request_checks_any_account(tx, due.gateway, [due.charge_reference], now)
            if result.kind is RefundOutcome.UNAVAILABLE:
                await undo_sent(tx, refund, sent_at=due.sent_at, sent_before=due.sent_before)
            if await apply_result(tx, money, refund, result, now=now, schedule=self.schedule):
                await settle(tx, money, by=ACTOR.at(now))


async def apply_result(
    tx: Connection,
    money: OrderMoney,
    refund: Refund,
    result: RefundResult,
    *,
    now: datetime,
    schedule: RetrySchedule | None = None,
) -> bool:
    """Store what the gateway says about one of our refunds. A failed one gets another attempt under a new id."""
    message = None if result.message is None else result.message.replace("\x00", "")[:MAX_MESSAGE]
    new = replace(refund, message=message, reference=result.reference or refund.reference)
    match result.kind:
        case RefundOutcome.REFUNDED:
            new = replace(new, state=RefundState.SUCCEEDED, settled_at=now, next_attempt_at=None, message=None)
            return await change_refund(tx, money, new, "refund.succeeded", by=ACTOR.at(now))
        case RefundOutcome.PENDING:
            look_at = next_look(refund.created_at, now)
            new = replace(new, state=RefundState.PENDING, settled_at=None, next_attempt_at=look_at)
            return await change_refund(tx, money, new, "refund.accepted", by=ACTOR.at(now))
        case RefundOutcome.FAILED:
            new = replace(new, state=RefundState.FAILED, settled_at=now, next_attempt_at=None)
            if not await change_refund(tx, money, new, "refund.failed", by=ACTOR.at(now)):
                return False
            await add_refund(tx, money, next_attempt(new, now), actor=ACTOR)
            return True
        case _:
            at = now if schedule is None else schedule.next_check(refund.created_at, now)
            return await change_refund(tx, money, replace(new, next_attempt_at=at), "refund.unclear", by=ACTOR.at(now))


def _is_open(refund: Refund, result: RefundResult) -> bool:
    """A refund may be cancelled here while it is at the gateway. If the gateway has made it, that counts."""
    if refund.state is RefundState.CANCELLED:
        return result.kind in {RefundOutcome.REFUNDED, RefundOutcome.PENDING}
    return refund.state in {RefundState.DUE, RefundState.PENDING}


def _log_result(refund: Refund, result: RefundResult) -> None:
    log = _log.bind(refund_id=refund.id, order_id=refund.order_id, attempt=refund.attempt)
    if result.kind in {RefundOutcome.REFUNDED, RefundOutcome.PENDING}:
        log.info("refund_made", outcome=result.kind, reference=result.reference)
    else:
        log.error("refund_not_made", outcome=result.kind, reason=result.message)


CHECK_ACTOR = job_actor("check_payments")
STATES = {RefundOutcome.REFUNDED: RefundState.SUCCEEDED, RefundOutcome.PENDING: RefundState.PENDING}


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
    await change_refund(tx, money, cancelled, "refund.cancelled", by=CHECK_ACTOR.at(now))


def found_refund(charge: CapturedCharge, found: RecordedRefund, amount_minor: int, now: datetime) -> Refund:
    """A refund that somebody has made at the gateway: all of it, or the part of one order."""
    purpose = RefundPurpose.SURPLUS if charge.is_surplus else RefundPurpose.GATEWAY
    refund = card_refund(charge, amount_minor, purpose, "Refunded at the gateway", by=CHECK_ACTOR.at(now))
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
    await change_refund(tx, money, changed, f"refund.{state}", by=CHECK_ACTOR.at(now))


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
        await record_all(tx, [_entry(dispute, known)], by=CHECK_ACTOR.at(now))


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
