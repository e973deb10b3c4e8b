"""Test helpers: capture or decline an order's card on demand."""

from msgspec import Struct

from tonne.money.cards.charge_store import find_pending, read_chargeable
from tonne.money.cards.charges import FindBilled, OpenedCharges, open_charges, settle_charges
from tonne.money.cards.errors import ChargeUnderWay, OrderPaidByInvoice
from tonne.money.cards.gateways.card import CardGateway, ChargeResult, StoredCard
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.model import DECLINES, DeclineCode, RetrySchedule
from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Clock, Scope
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


class SimulatePayment(Struct, frozen=True):
    """In the same steps as a worker."""

    database: Database
    gateway: CardGateway
    find_billed: FindBilled
    clock: Clock
    schedule: RetrySchedule

    async def pay(self, scope: Scope, order_id: str) -> Order:
        """Charge a working test card, or confirm a charge that waits for its payer."""
        async with self.database.transaction() as tx:
            order = await self._lock(tx, scope, order_id)
            waiting = await find_pending(tx, order)
            if waiting is None or waiting.confirm_until is None:
                waiting = None
                opened = await self._open(tx, order, GOOD_CARD)
        if waiting is not None:
            confirmed = await SimulatedCardGateway(self.database).authenticate(waiting.request, succeeds=True)
            results, opened = [(waiting, confirmed)], OpenedCharges([], [])
        else:
            results = [(attempt, await self.gateway.charge(attempt.request)) for attempt in opened.attempts]
        [order] = await self.database.commit(settle_charges, results, opened.free, self.clock(), self.schedule)
        if order.status is not OrderStatus.PAID:
            raise TransitionInvalid(f"The order became {order.status} before it was paid.")
        return order

    async def decline(self, scope: Scope, order_id: str, code: DeclineCode) -> Order:
        """Record one declined attempt. As after a real decline, the order is charged again later, or fails.

        A charge that needs authentication is made at the gateway, where the payer can then confirm it.
        """
        result: ChargeResult | None = None
        if code is not DeclineCode.AUTHENTICATION_REQUIRED:
            result = ChargeResult(DECLINES[code], code=code, message="Declined by the test helper.")
        async with self.database.transaction() as tx:
            order = await self._lock(tx, scope, order_id)
            opened = await self._open(tx, order, GOOD_CARD if result else CONFIRMED_CARD)
            if not opened.attempts:
                raise TransitionInvalid("The order total is zero, so there is no charge to decline.")
            [attempt] = opened.attempts
            if result is not None:
                [order] = await settle_charges(tx, [(attempt, result)], [], self.clock(), self.schedule)
                return order
        result = await self.gateway.charge(attempt.request)
        [order] = await self.database.commit(settle_charges, [(attempt, result)], [], self.clock(), self.schedule)
        return order

    async def _lock(self, tx: Connection, scope: Scope, order_id: str) -> Order:
        order = await lock_order(tx, scope, order_id)
        if order is None:
            raise OrderNotFound
        if order.payment_method is not PaymentMethod.CARD:
            raise OrderPaidByInvoice
        if order.status is not OrderStatus.PLACED:
            raise TransitionInvalid(f"The order is {order.status}. Only a placed order can be paid.")
        if order.tax.tax_minor is None or await self.find_billed(tx, [order.key]):
            raise OrderPaidByInvoice(BILLED_TOGETHER)
        return order

    async def _open(self, tx: Connection, order: Order, card: StoredCard) -> OpenedCharges:
        now = self.clock()
        [chargeable] = await read_chargeable(tx, [order.key])
        if chargeable.has_open_charge:
            raise ChargeUnderWay
        return await open_charges(tx, [chargeable.paid_with(card)], now, now + self.schedule.lease())
