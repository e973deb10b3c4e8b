"""Compare charges with the gateway's record: refunds and disputes that began there, and what became of ours.

An event, a poll or a failed refund has named them. The test helper disputes a card payment on demand, in the same steps
as a worker.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog

from tonne.money.cards import captured_store
from tonne.money.cards.captured_store import CapturedCharge, find_captured, find_paying, finish_check
from tonne.money.cards.gateways.card import CardGateway, DisputeState, PaymentNotRead, RecordedPayment, RecordedRefund
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.model import ChargeStatus, RetrySchedule
from tonne.money.refunds import make_refunds
from tonne.money.refunds.disputes.dispute_store import (
    claim_poll,
    finish_poll,
    list_disputes,
    list_open_references_any_account,
)
from tonne.money.refunds.disputes.shared_payment import record_shared_payment
from tonne.money.refunds.errors import NothingToDispute
from tonne.money.refunds.order_money import OrderMoney, add_refund, lock_money, settle
from tonne.platform.db.batches import RowJob, run_each
from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Scope
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import require_order
from tonne.selling.orders.model import Order
from tonne.selling.orders.store import find_by_id


async def record_payment(
    tx: Connection, charge: CapturedCharge, payment: RecordedPayment, *, held_until: datetime | None, now: datetime
) -> Order | None:
    """Store what is new at the gateway and settle the order. Call it last in the transaction.

    Returns the order as it is then; None for a charge that paid for several.

    Safe to repeat: it compares states and stores differences only. `held_until`: the lease that ends with it, if any.
    """
    if charge.is_shared:
        await record_shared_payment(tx, charge, payment, held_until=held_until, now=now)
        return None
    money = await lock_money(tx, charge.scope, charge.order_id)
    if money is None:
        return None
    if held_until is not None:
        await finish_check(tx, charge, held_until, None)
    # As it is now: it may have changed while the gateway was asked.
    charge = next((each for each in money.charges if each.id == charge.id), charge)
    if charge.status is ChargeStatus.MISMATCHED:
        # Only a person decides about it; until then, only the amount is stored.
        await make_refunds.store_amount(tx, money, charge, payment, now)
        return money.order
    charge = await make_refunds.store_amount(tx, money, charge, payment, now)
    for found in payment.refunds:
        await _record_refund(tx, money, charge, found, now)
    for dispute in payment.disputes:
        await make_refunds.store_found_dispute(tx, charge, dispute, now)
    money.disputes = await list_disputes(tx, money.order)
    await make_refunds.cancel_exceeding(tx, money, charge, now)
    return await settle(tx, money, by=make_refunds.CHECK_ACTOR.at(now))


async def _record_refund(
    tx: Connection, money: OrderMoney, charge: CapturedCharge, found: RecordedRefund, now: datetime
) -> None:
    ours = [each for each in money.of_charge(charge) if found.refund_id == each.id or found.reference == each.reference]
    if ours:
        await make_refunds.update_refund(tx, money, ours[0], found, now)
    elif found.kind in make_refunds.STATES:
        refund = make_refunds.found_refund(charge, found, found.amount_minor, now)
        _log.warning("refund_found", refund_id=refund.id, order_id=refund.order_id, reference=found.reference)
        await add_refund(tx, money, refund, actor=make_refunds.CHECK_ACTOR)


async def simulate_dispute(
    database: Database, scope: Scope, order_id: str, state: DisputeState, now: datetime
) -> bytes:
    """The order's JSON afterwards."""
    gateway = SimulatedCardGateway(database)
    async with database.connection() as connection:
        order = await require_order(connection, scope, order_id)
        charge = find_paying(await find_captured(connection, order))
    if charge is None or not await gateway.dispute(charge.reference, state, now):
        raise NothingToDispute
    payment = await gateway.read_payment(charge.reference)
    await database.commit(record_payment, charge, payment, held_until=None, now=now)
    document = await database.run(find_by_id, scope, order_id)
    if document is None:
        raise OrderNotFound
    return document


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


class CheckPayments(RowJob, frozen=True):
    """A worker job. What an event says is never used: the payment is read from the gateway."""

    gateways: Mapping[str, CardGateway]
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


class PollGateways(RowJob, frozen=True):
    """A worker job that finds what no event has reported: new refunds and disputes, and those that have changed."""

    gateways: Mapping[str, CardGateway]

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
