"""Orders paid by card, a clock that tests move, and a gateway that fails on demand."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import asyncpg

from tests.support.clock import START, ManualClock
from tests.support.refund_jobs import RefundJobs
from tests.support.scene import Scene
from tests.support.world import TESTER, Tenant
from tonne.apps.wiring.app import Services
from tonne.money.cards.charge_cards import ChargeCards
from tonne.money.cards.gateways.card import (
    CardDetails,
    CardGateway,
    ChargeOutcome,
    ChargeRequest,
    ChargeResult,
    PaymentNotRead,
    RecordedPayment,
    RefundOutcome,
    RefundResult,
    StoredCard,
)
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.model import RetrySchedule
from tonne.money.cards.stored_cards.stored_cards import describe_card, store_card
from tonne.money.invoices.cancel_order import cancel_order
from tonne.money.invoices.card_payment.take_collections import TakeCollections
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import lock_order

GOOD = "4242424242424242"
REFUSED = "4000000000000002"
NO_MONEY = "4000000000009995"
DECLINED_TWICE = "4000000000000341"
NEEDS_AUTHENTICATION = "4000002500003155"
ANSWER_LOST = "4000000000000259"
REQUEST_LOST = "4000000000000267"


Charge = Callable[[ChargeRequest], Awaitable[ChargeResult]]


class UnreliableGateway:
    """Records the calls to a gateway and injects faults."""

    def __init__(self, inner: CardGateway) -> None:
        self.inner = inner
        self.charged: list[str] = []
        self.looked_up: list[str] = []
        self.refunded: list[str] = []
        self.cancelled: list[str] = []
        self.forgotten: list[str] = []
        # Faults of the next requests, in order. Later requests succeed.
        self.faults: list[Charge] = []
        self.is_down = False
        self.refund_faults: list[RefundOutcome] = []
        # How many of the next refunds fail without a refund at the gateway.
        self.lost_refunds = 0

    async def charge(self, request: ChargeRequest) -> ChargeResult:
        if self.is_down:
            return ChargeResult(ChargeOutcome.UNAVAILABLE, code="gateway_unreachable")
        self.charged.append(request.id)
        return await (self.faults.pop(0) if self.faults else self.inner.charge)(request)

    async def look_up(self, request: ChargeRequest) -> ChargeResult:
        self.looked_up.append(request.id)
        return ChargeResult(ChargeOutcome.UNKNOWN) if self.is_down else await self.inner.look_up(request)

    async def refund(self, refund_id: str, reference: str, amount_minor: int, currency: str) -> RefundResult:
        self.refunded.append(refund_id)
        if self.lost_refunds:
            self.lost_refunds -= 1
            return RefundResult(RefundOutcome.FAILED, message="The bank\x00 rejected it.")
        fault = self.refund_faults.pop(0) if self.refund_faults else None
        if fault is RefundOutcome.UNAVAILABLE:
            return RefundResult(fault)
        answer = await self.inner.refund(refund_id, reference, amount_minor, currency)
        return answer if fault is None else RefundResult(fault, message="No answer\x00 came.")

    async def cancel(self, request: ChargeRequest) -> ChargeResult:
        self.cancelled.append(request.id)
        return ChargeResult(ChargeOutcome.UNKNOWN) if self.is_down else await self.inner.cancel(request)

    async def read_payment(self, reference: str) -> RecordedPayment:
        if self.is_down:
            raise PaymentNotRead("down")
        return await self.inner.read_payment(reference)

    async def list_changed(self, since: datetime) -> set[str]:
        if self.is_down:
            raise PaymentNotRead("down")
        return await self.inner.list_changed(since)

    async def forget(self, card: StoredCard) -> None:
        self.forgotten.append(card.method)

    async def describe(self, card: StoredCard) -> CardDetails:
        return await self.inner.describe(card)

    async def close(self) -> None:
        await self.inner.close()

    async def lose_request(self, _request: ChargeRequest) -> ChargeResult:
        return ChargeResult(ChargeOutcome.UNKNOWN, code="timeout")

    async def lose_answer(self, request: ChargeRequest) -> ChargeResult:
        await self.inner.charge(request)
        return ChargeResult(ChargeOutcome.UNKNOWN, code="timeout")

    async def break_down(self, request: ChargeRequest) -> ChargeResult:
        await self.inner.charge(request)
        raise ConnectionResetError("in the middle of it")


class CardScene(Scene):
    def __init__(
        self,
        services: Services,
        tenant: Tenant,
        clock: ManualClock | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(services, clock, settings)
        self.tenant = tenant
        self.gateway = UnreliableGateway(SimulatedCardGateway(self.database))
        self.gateways: dict[str, CardGateway] = {"simulated": self.gateway}
        self.worker = self.another_worker()
        self.refunds = RefundJobs(self.database, self.gateways, self.clock, RetrySchedule(self.settings))

    @property
    def scope(self) -> Scope:
        return self.tenant.scope

    def another_worker(self) -> ChargeCards:
        return ChargeCards(
            self.database,
            self.clock,
            self.gateways,
            Mode.TEST,
            RetrySchedule(self.settings),
            TakeCollections(self.settings),
        )

    async def wait_for_helpers(self) -> None:
        """Stop the account from advancing automatically."""
        await self.execute("UPDATE accounts SET auto_advance = false WHERE id = $1", self.scope.account_id)

    async def make_due(self, order: Order) -> None:
        """Make an order due by an update from outside."""
        await self.execute("UPDATE orders SET next_attempt_at = $2 WHERE id = $1", order.id, START)

    async def pay_by_card(self, number: str | None) -> None:
        """Let the account pay by this card; None: by card, without a stored one."""
        await self.execute("UPDATE accounts SET payment_method = 'card' WHERE id = $1", self.scope.account_id)
        if number is not None:
            stored = await describe_card(self.gateways, Mode.TEST, None, number)
            async with self.database.transaction() as tx:
                await store_card(tx, self.scope, stored, by=TESTER.at(self.clock()))

    async def order_as_the_account_says(self) -> Order:
        return await self.place_order(self.scope)

    async def order(self, number: str | None = GOOD) -> Order:
        await self.pay_by_card(number)
        return await self.order_as_the_account_says()

    async def work(self) -> bool:
        return await self.worker.run_once()

    async def cancel(self, order: Order, reason: str | None = None) -> Order:
        async with self.database.transaction() as tx:
            found = await lock_order(tx, order.scope, order.id)
            assert found is not None
            return await cancel_order(tx, found, by=TESTER.at(self.clock()), reason=reason)

    async def due_at(self, order: Order) -> datetime | None:
        at: datetime | None = await self.fetchval("SELECT next_attempt_at FROM orders WHERE id = $1", order.id)
        return at

    async def charges(self, order: Order) -> list[asyncpg.Record]:
        return await self.fetch("SELECT * FROM charges WHERE order_id = $1 ORDER BY attempt", order.id)

    async def outcomes(self, order: Order) -> list[tuple[str, str | None]]:
        return [(charge["status"], charge["outcome"]) for charge in await self.charges(order)]

    async def taken(self) -> list[int]:
        """The amounts that the gateway captured and did not refund."""
        captured = "SELECT amount_minor - refunded_minor AS kept FROM simulated_charges WHERE status = 'captured'"
        return [row["kept"] for row in await self.fetch(captured)]


def total(orders: Sequence[Order] | Order) -> int:
    orders = [orders] if isinstance(orders, Order) else orders
    return sum(order.priced.total_cost_minor for order in orders if order.priced is not None)
