"""Send due refunds to the gateway, and follow those that it has accepted."""

import asyncio
from collections.abc import Mapping
from datetime import datetime

import structlog
from msgspec import Struct

from tonne.money.cards.captured_store import request_checks_any_account
from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.gateways.payment_record import RefundOutcome, RefundResult
from tonne.money.cards.model import RetrySchedule
from tonne.money.refunds.model import Refund, RefundState, next_look, retry_delay
from tonne.money.refunds.order_money import OrderMoney, add_refund, change_refund, lock_money, settle
from tonne.money.refunds.store import DueRefund, claim_due, undo_sent
from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Clock, job_actor, new_id
from tonne.platform.values.replace import replace

BATCH = 50
CONCURRENCY = 8
MAX_MESSAGE = 500
ACTOR = job_actor("make_refunds")

_log = structlog.get_logger()


class MakeRefunds(Struct, frozen=True):
    """A worker job.

    The id of a refund is its idempotency key at the gateway: repeating it after a crash or a lost answer refunds
    nothing twice. Only after the gateway says that a refund failed is another one made, under a new id.
    """

    database: Database
    gateways: Mapping[str, CardGateway]
    clock: Clock
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
                await settle(tx, money, actor=ACTOR, now=now)


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
            return await change_refund(tx, money, new, "refund.succeeded", actor=ACTOR, now=now)
        case RefundOutcome.PENDING:
            look_at = next_look(refund.created_at, now)
            new = replace(new, state=RefundState.PENDING, settled_at=None, next_attempt_at=look_at)
            return await change_refund(tx, money, new, "refund.accepted", actor=ACTOR, now=now)
        case RefundOutcome.FAILED:
            new = replace(new, state=RefundState.FAILED, settled_at=now, next_attempt_at=None)
            if not await change_refund(tx, money, new, "refund.failed", actor=ACTOR, now=now):
                return False
            await add_refund(tx, money, next_attempt(new, now), actor=ACTOR)
            return True
        case _:
            at = now if schedule is None else schedule.next_check(refund.created_at, now)
            return await change_refund(
                tx, money, replace(new, next_attempt_at=at), "refund.unclear", actor=ACTOR, now=now
            )


def _is_open(refund: Refund, result: RefundResult) -> bool:
    """A refund may be cancelled here while it is at the gateway. If the gateway has made it, that counts."""
    if refund.state is RefundState.CANCELLED:
        return result.kind in {RefundOutcome.REFUNDED, RefundOutcome.PENDING}
    return refund.state in {RefundState.DUE, RefundState.PENDING}


def next_attempt(failed: Refund, now: datetime) -> Refund:
    return replace(
        failed,
        id=new_id("rfd"),
        state=RefundState.DUE,
        attempt=failed.attempt + 1,
        repeats=failed.id,
        reference=None,
        message=None,
        idempotency_key=None,
        request_digest=None,
        created_at=now,
        settled_at=None,
        next_attempt_at=now + retry_delay(failed.attempt),
    )


def _log_result(refund: Refund, result: RefundResult) -> None:
    log = _log.bind(refund_id=refund.id, order_id=refund.order_id, attempt=refund.attempt)
    if result.kind in {RefundOutcome.REFUNDED, RefundOutcome.PENDING}:
        log.info("refund_made", outcome=result.kind, reference=result.reference)
    else:
        log.error("refund_not_made", outcome=result.kind, reason=result.message)
