"""Money that was taken for an order which had been cancelled meanwhile goes back."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog

from tonne.base.clock import Clock
from tonne.base.settings import Settings
from tonne.cards.model import Pace, refund_id_of
from tonne.cards.store import RefundChange, RefundDue, claim_refunds_any_account, settle_refunds
from tonne.db.batches import run_leased
from tonne.db.pool import Database
from tonne.gateways.card import CardGateway, Refunded, RefundOutcome

BATCH = 50
AT_ONCE = 8

_log = structlog.get_logger()


class RefundCharges:
    """Runs in a worker. It never gives up: each try has the same refund id, under which the gateway pays once."""

    def __init__(
        self, database: Database, gateways: Mapping[str, CardGateway], clock: Clock, settings: Settings
    ) -> None:
        self._database = database
        self._gateways = gateways
        self._clock = clock
        self._pace = Pace(settings)

    async def run_once(self) -> bool:
        """One batch; false when nothing is due."""
        due = await self.claim()
        if not due:
            return False
        await self.settle(await self.ask(due))
        return True

    async def claim(self) -> list[RefundDue]:
        async with self._database.transaction() as tx:
            now = self._clock()
            return await claim_refunds_any_account(tx, now, now + self._pace.lease(), limit=BATCH)

    async def ask(self, due: list[RefundDue]) -> list[tuple[RefundDue, Refunded]]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def ask_one(refund: RefundDue) -> tuple[RefundDue, Refunded]:
            async with slots:
                try:
                    return refund, await self._ask(refund)
                except Exception:  # noqa: BLE001 - whatever it is, the same refund is asked for again later
                    _log.exception("card_gateway_failed", charge_id=refund.charge_id, gateway=refund.gateway)
                    return refund, Refunded(RefundOutcome.UNKNOWN)

        return await asyncio.gather(*(ask_one(refund) for refund in due))

    async def settle(self, answers: list[tuple[RefundDue, Refunded]]) -> None:
        await run_leased(
            answers,
            self._settle,
            failure_event="refund_not_settled",
            describe=lambda answered: {"charge_id": answered[0].charge_id},
        )

    async def _settle(self, answers: Sequence[tuple[RefundDue, Refunded]]) -> None:
        now = self._clock()
        async with self._database.transaction() as tx:
            await settle_refunds(tx, [self._change(refund, answer, now) for refund, answer in answers])

    async def _ask(self, refund: RefundDue) -> Refunded:
        gateway = self._gateways.get(refund.gateway)
        if gateway is None:
            return Refunded(RefundOutcome.UNAVAILABLE, message=f"The gateway {refund.gateway} is not set up.")
        return await gateway.refund(
            refund_id_of(refund.charge_id), refund.reference, refund.amount_minor, refund.currency
        )

    def _change(self, refund: RefundDue, answer: Refunded, now: datetime) -> RefundChange:
        if answer.kind is RefundOutcome.REFUNDED:
            _log.info("charge_refunded", charge_id=refund.charge_id, order_id=refund.order_id)
            return RefundChange(refund, now, None, None)
        _log.error(
            "charge_not_refunded",
            charge_id=refund.charge_id,
            order_id=refund.order_id,
            outcome=answer.kind,
            reason=answer.message,
        )
        message = (answer.message or "").replace("\x00", "")
        return RefundChange(refund, None, self._pace.next_look(refund.due_since, now), message)
