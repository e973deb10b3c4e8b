"""Read the gateway's record of charges that an event, a poll or a failed refund has named."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog
from msgspec import Struct

from tonne.money.cards import captured_store
from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.gateways.payment_record import PaymentNotRead
from tonne.money.cards.model import RetrySchedule
from tonne.money.refunds.disputes.dispute_store import claim_poll, finish_poll, list_open_references_any_account
from tonne.money.refunds.disputes.record_payment import record_payment
from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Database
from tonne.platform.values.context import Clock

BATCH = 20
# After the gateway could not be read.
RETRY_AFTER = timedelta(minutes=10)
POLL_EVERY = timedelta(minutes=15)
# Objects may appear in the gateway's lists late, and its clock may differ from ours.
OVERLAP = timedelta(hours=1)
# A refund may fail days after it succeeded, without a new object: once a day, all recent ones are read again.
LONG_POLL_EVERY = timedelta(days=1)
LONG_POLL = timedelta(days=14)
# A gateway that was never polled: how far back to look.
FIRST_POLL = timedelta(days=30)

_log = structlog.get_logger()


class CheckPayments(Struct, frozen=True):
    """A worker job. What an event says is never used: the payment is read from the gateway."""

    database: Database
    gateways: Mapping[str, CardGateway]
    clock: Clock
    schedule: RetrySchedule

    async def run_once(self) -> bool:
        """Process one batch; false if nothing is due."""
        now = self.clock()
        held_until = now + self.schedule.lease()
        due = await self.database.commit(captured_store.claim_checks, now, held_until, limit=BATCH)
        return await run_each(
            due,
            lambda charge: self._check(charge, held_until),
            failure_event="payment_not_checked",
            describe=lambda charge: {"charge_id": charge.id, "order_id": charge.order_id},
        )

    async def _check(self, charge: captured_store.CapturedCharge, held_until: datetime) -> None:
        gateway = self.gateways.get(charge.gateway)
        if gateway is None:
            _log.error("card_gateway_not_configured", gateway=charge.gateway, charge_id=charge.id)
            return
        try:
            payment = await gateway.read_payment(charge.reference)
        except PaymentNotRead as error:
            _log.warning("payment_not_read", charge_id=charge.id, order_id=charge.order_id, reason=str(error))
            await self.database.commit(captured_store.finish_check, charge, held_until, self.clock() + RETRY_AFTER)
            return
        await self.database.commit(record_payment, charge, payment, held_until=held_until, now=self.clock())


class PollGateways(Struct, frozen=True):
    """A worker job that finds what no event has reported: new refunds and disputes, and those that have changed."""

    database: Database
    gateways: Mapping[str, CardGateway]
    clock: Clock

    async def run_once(self) -> bool:
        """False if no gateway is to be polled now."""
        worked = False
        for name, gateway in self.gateways.items():
            worked |= await self._poll(name, gateway, name, POLL_EVERY, OVERLAP)
            worked |= await self._poll(name, gateway, f"{name}, long", LONG_POLL_EVERY, LONG_POLL)
        return worked

    async def _poll(self, name: str, gateway: CardGateway, poll: str, every: timedelta, overlap: timedelta) -> bool:
        now = self.clock()
        until = await self.database.commit(claim_poll, poll, first=now - FIRST_POLL, now=now, next_at=now + every)
        if until is None:
            return False
        try:
            references = await gateway.list_changed(until - overlap)
        except PaymentNotRead as error:
            _log.warning("gateway_not_polled", gateway=name, reason=str(error))
            return True
        async with self.database.transaction() as tx:
            references |= await list_open_references_any_account(tx, name)
            found = await captured_store.request_checks_any_account(tx, name, references, now)
            await finish_poll(tx, poll, now)
        _log.info("gateway_polled", gateway=name, payments=found)
        return True
