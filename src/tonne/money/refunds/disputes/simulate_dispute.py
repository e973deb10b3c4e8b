"""Test helper: dispute a card payment on demand, in the same steps as a worker."""

from datetime import datetime

from tonne.money.cards.captured_store import find_captured, find_paying
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.gateways.payment_record import DisputeState
from tonne.money.refunds.disputes.record_payment import record_payment
from tonne.money.refunds.errors import NothingToDispute
from tonne.platform.db.database import Database
from tonne.platform.values.context import Scope
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import load_order
from tonne.selling.orders.store import find_by_id


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
