"""Test mode: what a bank would do to an order's card, done on demand."""

from datetime import datetime

from tonne.accounts.model import PaymentMethod
from tonne.base.clock import Clock
from tonne.base.scope import Scope
from tonne.cards.errors import ChargeUnderWay, OrderPaidByInvoice
from tonne.cards.model import DECLINES, DeclineCode, Pace
from tonne.cards.open_charges import Opened, open_charges
from tonne.cards.settle_charges import settle_charges
from tonne.cards.store import read_to_charge
from tonne.db.pool import Connection, Database
from tonne.gateways.card import Card, CardGateway, Charged
from tonne.orders.errors import OrderNotFound, TransitionInvalid
from tonne.orders.model import Order, OrderStatus
from tonne.orders.queue import lock_order

# Every charge of it succeeds, whichever card the account has stored.
GOOD_CARD = Card("cus_test_helper", "4242424242424242")


async def simulate_payment(
    database: Database, gateway: CardGateway, scope: Scope, order_id: str, *, clock: Clock, pace: Pace
) -> Order:
    """Charge a card that works, in the steps in which a worker does it."""
    async with database.transaction() as tx:
        opened = await _open(tx, scope, order_id, clock(), pace)
    answers = [(attempt, await gateway.charge(attempt.request)) for attempt in opened.attempts]
    async with database.transaction() as tx:
        orders = await settle_charges(tx, answers, opened.free, clock(), pace)
    order = orders[0]
    if order.status is not OrderStatus.PAID:
        raise TransitionInvalid(f"The order became {order.status} before it could be paid.")
    return order


async def simulate_decline(
    tx: Connection, scope: Scope, order_id: str, code: DeclineCode, *, now: datetime, pace: Pace
) -> Order:
    """One attempt that the bank declines. What follows is what follows in earnest: another attempt, or failure."""
    opened = await _open(tx, scope, order_id, now, pace)
    if not opened.attempts:
        raise TransitionInvalid("There is nothing to pay for this order, so nothing can be declined.")
    answer = Charged(DECLINES[code], code=code, message="Declined by the test helper.")
    orders = await settle_charges(tx, [(attempt, answer) for attempt in opened.attempts], [], now, pace)
    return orders[0]


async def _open(tx: Connection, scope: Scope, order_id: str, now: datetime, pace: Pace) -> Opened:
    order = await lock_order(tx, scope, order_id)
    if order is None:
        raise OrderNotFound
    if order.payment_method is not PaymentMethod.CARD:
        raise OrderPaidByInvoice
    if order.status is not OrderStatus.PLACED:
        raise TransitionInvalid(f"The order is {order.status}: only one that is placed can be paid.")
    [to_charge] = await read_to_charge(tx, [order.key])
    if to_charge.is_open:
        raise ChargeUnderWay
    return await open_charges(tx, [to_charge], now, now + pace.lease(), card=GOOD_CARD)
