"""Test helpers: capture or decline an order's card on demand."""

from datetime import datetime

from tonne.accounts.model import PaymentMethod
from tonne.base.clock import Clock
from tonne.base.scope import Scope
from tonne.cards.charge_store import read_chargeable
from tonne.cards.errors import ChargeUnderWay, OrderPaidByInvoice
from tonne.cards.model import DECLINES, DeclineCode, RetrySchedule
from tonne.cards.open_charges import OpenedCharges, open_charges
from tonne.cards.settle_charges import settle_charges
from tonne.db.pool import Connection, Database
from tonne.gateways.card import CardGateway, ChargeResult, StoredCard
from tonne.orders.errors import OrderNotFound, TransitionInvalid
from tonne.orders.model import Order, OrderStatus
from tonne.orders.queue import lock_order

# Always succeeds, whichever card the account has stored.
GOOD_CARD = StoredCard("cus_test_helper", "4242424242424242")


async def simulate_payment(
    database: Database, gateway: CardGateway, scope: Scope, order_id: str, *, clock: Clock, schedule: RetrySchedule
) -> Order:
    """Charge a working test card, in the same steps as a worker."""
    async with database.transaction() as tx:
        opened = await _open(tx, scope, order_id, clock(), schedule)
    results = [(attempt, await gateway.charge(attempt.request)) for attempt in opened.attempts]
    async with database.transaction() as tx:
        orders = await settle_charges(tx, results, opened.free, clock(), schedule)
    order = orders[0]
    if order.status is not OrderStatus.PAID:
        raise TransitionInvalid(f"The order became {order.status} before it was paid.")
    return order


async def simulate_decline(
    tx: Connection, scope: Scope, order_id: str, code: DeclineCode, *, now: datetime, schedule: RetrySchedule
) -> Order:
    """Record one declined attempt. As after a real decline, the order is charged again later, or fails."""
    opened = await _open(tx, scope, order_id, now, schedule)
    if not opened.attempts:
        raise TransitionInvalid("The order total is zero, so there is no charge to decline.")
    result = ChargeResult(DECLINES[code], code=code, message="Declined by the test helper.")
    orders = await settle_charges(tx, [(attempt, result) for attempt in opened.attempts], [], now, schedule)
    return orders[0]


async def _open(tx: Connection, scope: Scope, order_id: str, now: datetime, schedule: RetrySchedule) -> OpenedCharges:
    order = await lock_order(tx, scope, order_id)
    if order is None:
        raise OrderNotFound
    if order.payment_method is not PaymentMethod.CARD:
        raise OrderPaidByInvoice
    if order.status is not OrderStatus.PLACED:
        raise TransitionInvalid(f"The order is {order.status}. Only a placed order can be paid.")
    [chargeable] = await read_chargeable(tx, [order.key])
    if chargeable.has_open_charge:
        raise ChargeUnderWay
    return await open_charges(tx, [chargeable.paid_with(GOOD_CARD)], now, now + schedule.lease())
