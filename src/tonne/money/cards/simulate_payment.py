"""Test helpers: capture or decline an order's card on demand."""

from datetime import datetime

from tonne.money.cards.charge_store import find_pending, read_chargeable
from tonne.money.cards.errors import ChargeUnderWay, OrderPaidByInvoice
from tonne.money.cards.gateways.card import CardGateway, ChargeResult, StoredCard
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.model import DECLINES, DeclineCode, RetrySchedule
from tonne.money.cards.open_charges import FindBilled, OpenedCharges, open_charges
from tonne.money.cards.settle_charges import settle_charges
from tonne.platform.db.pool import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.clock import Clock
from tonne.platform.values.scope import Scope
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.errors import OrderNotFound, TransitionInvalid
from tonne.selling.orders.model import Order, OrderStatus
from tonne.selling.orders.queue import lock_order

# Always succeeds, whichever card the account has stored.
GOOD_CARD = StoredCard("cus_test_helper", "4242424242424242")
# Always has to be confirmed by the payer.
CONFIRMED_CARD = StoredCard("cus_test_helper", "4000002760003184")
BILLED_TOGETHER = (
    "This order is billed with others, and one charge of the card pays their invoice. Use the settle-invoice test "
    "helper."
)


async def simulate_payment(
    database: Database,
    gateway: CardGateway,
    scope: Scope,
    order_id: str,
    *,
    find_billed: FindBilled,
    clock: Clock,
    settings: Settings,
) -> Order:
    """Charge a working test card, in the same steps as a worker. Confirms a charge that waits for its payer."""
    schedule = RetrySchedule(settings)
    async with database.transaction() as tx:
        order = await _lock(tx, scope, order_id, find_billed)
        waiting = await find_pending(tx, order)
        if waiting is None or waiting.confirm_until is None:
            waiting = None
            opened = await _open(tx, order, GOOD_CARD, clock(), schedule)
    if waiting is not None:
        confirmed = await SimulatedCardGateway(database).authenticate(waiting.request, succeeds=True)
        results, opened = [(waiting, confirmed)], OpenedCharges([], [])
    else:
        results = [(attempt, await gateway.charge(attempt.request)) for attempt in opened.attempts]
    async with database.transaction() as tx:
        orders = await settle_charges(tx, results, opened.free, clock(), schedule)
    order = orders[0]
    if order.status is not OrderStatus.PAID:
        raise TransitionInvalid(f"The order became {order.status} before it was paid.")
    return order


async def simulate_decline(
    database: Database,
    gateway: CardGateway,
    scope: Scope,
    order_id: str,
    code: DeclineCode,
    *,
    find_billed: FindBilled,
    clock: Clock,
    settings: Settings,
) -> Order:
    """Record one declined attempt. As after a real decline, the order is charged again later, or fails.

    A charge that needs authentication is made at the gateway, where the payer can then confirm it.
    """
    schedule = RetrySchedule(settings)
    result: ChargeResult | None = None
    if code is not DeclineCode.AUTHENTICATION_REQUIRED:
        result = ChargeResult(DECLINES[code], code=code, message="Declined by the test helper.")
    async with database.transaction() as tx:
        order = await _lock(tx, scope, order_id, find_billed)
        opened = await _open(tx, order, GOOD_CARD if result else CONFIRMED_CARD, clock(), schedule)
        if not opened.attempts:
            raise TransitionInvalid("The order total is zero, so there is no charge to decline.")
        [attempt] = opened.attempts
        if result is not None:
            orders = await settle_charges(tx, [(attempt, result)], [], clock(), schedule)
            return orders[0]
    result = await gateway.charge(attempt.request)
    async with database.transaction() as tx:
        orders = await settle_charges(tx, [(attempt, result)], [], clock(), schedule)
    return orders[0]


async def _lock(tx: Connection, scope: Scope, order_id: str, find_billed: FindBilled) -> Order:
    order = await lock_order(tx, scope, order_id)
    if order is None:
        raise OrderNotFound
    if order.payment_method is not PaymentMethod.CARD:
        raise OrderPaidByInvoice
    if order.status is not OrderStatus.PLACED:
        raise TransitionInvalid(f"The order is {order.status}. Only a placed order can be paid.")
    if order.tax.tax_minor is None or await find_billed(tx, [order.key]):
        raise OrderPaidByInvoice(BILLED_TOGETHER)
    return order


async def _open(
    tx: Connection, order: Order, card: StoredCard, now: datetime, schedule: RetrySchedule
) -> OpenedCharges:
    [chargeable] = await read_chargeable(tx, [order.key])
    if chargeable.has_open_charge:
        raise ChargeUnderWay
    return await open_charges(tx, [chargeable.paid_with(card)], now, now + schedule.lease())
