"""Compare a charge with the gateway's record: refunds and disputes that began there, and what became of ours.

The test helper disputes a card payment on demand, in the same steps as a worker.
"""

from datetime import datetime

import structlog

from tonne.money.cards.captured_store import CapturedCharge, find_captured, find_paying, finish_check
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.gateways.payment_record import DisputeState, RecordedPayment, RecordedRefund
from tonne.money.cards.model import ChargeStatus
from tonne.money.refunds import record_refund
from tonne.money.refunds.disputes.dispute_store import list_disputes
from tonne.money.refunds.disputes.shared_payment import record_shared_payment
from tonne.money.refunds.errors import NothingToDispute
from tonne.money.refunds.order_money import OrderMoney, add_refund, lock_money, settle
from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Scope
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import Order
from tonne.selling.orders.store import find_by_id

_log = structlog.get_logger()


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
        await record_refund.store_amount(tx, money, charge, payment, now)
        return money.order
    charge = await record_refund.store_amount(tx, money, charge, payment, now)
    for found in payment.refunds:
        await _record_refund(tx, money, charge, found, now)
    for dispute in payment.disputes:
        await record_refund.store_found_dispute(tx, charge, dispute, now)
    money.disputes = await list_disputes(tx, money.order)
    await record_refund.cancel_exceeding(tx, money, charge, now)
    return await settle(tx, money, actor=record_refund.ACTOR, now=now)


async def _record_refund(
    tx: Connection, money: OrderMoney, charge: CapturedCharge, found: RecordedRefund, now: datetime
) -> None:
    ours = [each for each in money.of_charge(charge) if found.refund_id == each.id or found.reference == each.reference]
    if ours:
        await record_refund.update_refund(tx, money, ours[0], found, now)
    elif found.kind in record_refund.STATES:
        refund = record_refund.found_refund(charge, found, found.amount_minor, now)
        _log.warning("refund_found", refund_id=refund.id, order_id=refund.order_id, reference=found.reference)
        await add_refund(tx, money, refund, actor=record_refund.ACTOR)


async def simulate_dispute(
    database: Database, scope: Scope, order_id: str, state: DisputeState, now: datetime
) -> bytes:
    """The order's JSON afterwards."""
    gateway = SimulatedCardGateway(database)
    async with database.connection() as connection:
        order = await load_order(connection, scope, order_id)
        if order is None:
            raise OrderNotFound
        charge = find_paying(await find_captured(connection, order))
    if charge is None or not await gateway.dispute(charge.reference, state, now):
        raise NothingToDispute
    payment = await gateway.read_payment(charge.reference)
    await database.commit(record_payment, charge, payment, held_until=None, now=now)
    document = await database.run(find_by_id, scope, order_id)
    if document is None:
        raise OrderNotFound
    return document
