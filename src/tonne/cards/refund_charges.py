"""Refund charges that were captured for cancelled orders."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from tonne.accounts.audit import Entry, record_all
from tonne.base.actor import job_actor
from tonne.base.clock import Clock
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.cards.charge_store import (
    DueRefund,
    RefundUpdate,
    SettledRefund,
    claim_refunds_any_account,
    settle_refunds,
)
from tonne.cards.model import ChargeStatus, RetrySchedule, refund_id_of
from tonne.db.batches import run_leased
from tonne.db.pool import Database
from tonne.gateways.card import CardGateway, RefundOutcome, RefundResult

BATCH = 50
CONCURRENCY = 8
ACTOR = job_actor("refund_charges")

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RefundCharges:
    """A worker job. It retries without limit, always with the same refund id, under which the gateway refunds once."""

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
            return await claim_refunds_any_account(tx, now, now + self.schedule.lease(), limit=BATCH)

    async def call_gateways(self, due: list[DueRefund]) -> list[tuple[DueRefund, RefundResult]]:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def call_one(refund: DueRefund) -> tuple[DueRefund, RefundResult]:
            async with slots:
                try:
                    return refund, await self._call_gateway(refund)
                except Exception:  # noqa: BLE001 - after any failure the refund is repeated later
                    _log.exception("card_gateway_failed", charge_id=refund.charge_id, gateway=refund.gateway)
                    return refund, RefundResult(RefundOutcome.UNKNOWN)

        return await asyncio.gather(*(call_one(refund) for refund in due))

    async def settle(self, results: list[tuple[DueRefund, RefundResult]]) -> None:
        await run_leased(
            results,
            self._settle,
            failure_event="refund_not_settled",
            describe=lambda result: {"charge_id": result[0].charge_id},
        )

    async def _settle(self, results: Sequence[tuple[DueRefund, RefundResult]]) -> None:
        now = self.clock()
        async with self.database.transaction() as tx:
            settled = await settle_refunds(tx, [self._update(refund, result, now) for refund, result in results])
            entries = [_entry(charge) for charge in settled if charge.status == ChargeStatus.REFUNDED]
            await record_all(tx, entries, actor=ACTOR, at=now)

    async def _call_gateway(self, refund: DueRefund) -> RefundResult:
        gateway = self.gateways.get(refund.gateway)
        if gateway is None:
            return RefundResult(RefundOutcome.UNAVAILABLE, message=f"The gateway {refund.gateway} is not configured.")
        return await gateway.refund(
            refund_id_of(refund.charge_id), refund.reference, refund.amount_minor, refund.currency
        )

    def _update(self, refund: DueRefund, result: RefundResult, now: datetime) -> RefundUpdate:
        if result.kind is RefundOutcome.REFUNDED:
            _log.info("charge_refunded", charge_id=refund.charge_id, order_id=refund.order_id)
            return RefundUpdate(refund, refunded_at=now)
        log = _log.bind(charge_id=refund.charge_id, order_id=refund.order_id)
        log.error("charge_not_refunded", outcome=result.kind, reason=result.message)
        message = (result.message or "").replace("\x00", "")
        return RefundUpdate(refund, next_attempt_at=self.schedule.next_check(refund.due_since, now), message=message)


def _entry(charge: SettledRefund) -> Entry:
    return Entry(
        action="charge.refunded",
        subject_id=charge.id,
        organisation_id=charge.organisation_id,
        mode=Mode(charge.mode),
        before={"status": ChargeStatus.REFUND_DUE},
        after={"status": ChargeStatus.REFUNDED},
        details={
            "order_id": charge.order_id,
            "amount": f"{format_money(charge.amount_minor, charge.currency)} {charge.currency}",
        },
    )
