"""Live orders at a checkout, paid on the page of a fake Stripe."""

from datetime import timedelta

from tests.money.cards.card_scene import CardScene
from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages
from tests.money.cards.gateways.page_requests import page_request
from tests.support.orders import DIGEST, write
from tests.support.refund_jobs import RefundJobs
from tonne.money.cards.charge_cards import ChargeCards
from tonne.money.cards.charge_store import read_chargeable
from tonne.money.cards.charges import open_charges
from tonne.money.cards.gateways.card import ChargeRequest, HostedPage, PaymentPage
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.money.cards.model import RetrySchedule
from tonne.money.invoices.card_payment.take_collections import TakeCollections
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.values.context import Mode, replace
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.orders.model import Order
from tonne.selling.orders.placing.place_order import CheckoutCustomer, OrderRequest

INSERT_LINK = """
INSERT INTO offset_links (account_id, id, organisation_id, mode, title, created_at)
VALUES ($1, $2, $3, $4, 'Offset your flight', $5) ON CONFLICT DO NOTHING
"""
INSERT_CHECKOUT = """
INSERT INTO checkouts (account_id, id, organisation_id, mode, offset_link_id, token_hash, temporary_id_hash, status,
                       requested_quantity_grams, total_cost_minor, currency, email, order_id, created_at, expires_at,
                       next_close_at)
SELECT account_id, 'chk_' || id, organisation_id, mode, offset_link_id, sha256(id::bytea), sha256(id::bytea), 'ordered',
       requested_quantity_grams, total_cost_minor, currency, email, id, created_at, created_at + interval '1 hour',
       created_at + interval '1 minute'
FROM orders WHERE id = $1
"""
LINK_ID = "lnk_pages"
HELD_FOR = timedelta(minutes=2)
NAME_PAGE = "UPDATE charges SET session_id = $2 WHERE id = $1 AND status = 'pending' RETURNING true"


class PageScene(CardScene):
    """The single steps of a checkout, so that a test can stop between any two of them."""

    def at_stripe(self, pages: FakeStripePages, gateway: StripeCardGateway) -> None:
        self.pages, self.stripe = pages, gateway
        self.gateway.inner = gateway
        self.gateways = {"stripe": self.gateway}
        self.worker = self.another_worker()
        self.refunds = RefundJobs(self.database, self.gateways, self.clock, RetrySchedule(self.settings))

    def another_worker(self) -> ChargeCards:
        return ChargeCards(
            self.database,
            self.clock,
            self.gateways,
            Mode.LIVE,
            RetrySchedule(self.settings),
            TakeCollections(self.settings),
        )

    async def begin(self) -> tuple[Order, ChargeRequest]:
        """An order and its pending charge, committed before Stripe is called."""
        now, scope = self.clock(), self.scope
        request = OrderRequest(
            requested=PriceRequest(mass_grams=1_105_697),
            idempotency=Idempotency(None, DIGEST),
            customer=CheckoutCustomer(LINK_ID, "ada@example.com"),
        )
        order = await write(self.services, scope, request, now)
        async with self.database.transaction() as tx:
            await tx.execute(INSERT_LINK, scope.account_id, LINK_ID, scope.organisation_id, scope.mode, now)
            await tx.execute(INSERT_CHECKOUT, order.id)
        return order, await self.try_again(order)

    async def try_again(self, order: Order) -> ChargeRequest:
        """A new charge for an order without an open one."""
        now = self.clock()
        async with self.database.transaction() as tx:
            [chargeable] = await read_chargeable(tx, [order.key])
            [attempt] = (await open_charges(tx, [chargeable.paid_with(HostedPage())], now, now + HELD_FOR)).attempts
        return attempt.request

    async def open_page(self, charge: ChargeRequest) -> PaymentPage:
        """Open the page and record its id."""
        page = await self.stripe.open_page(page_request(charge, expires_at=self.clock() + timedelta(minutes=35)))
        assert await self.name_page(charge, page)
        return page

    async def name_page(self, charge: ChargeRequest, page: PaymentPage) -> bool:
        async with self.database.transaction() as tx:
            return await tx.fetchval(NAME_PAGE, charge.id, page.session_id) is True

    async def at_the_page(self) -> tuple[Order, ChargeRequest, PaymentPage]:
        order, charge = await self.begin()
        page = await self.open_page(charge)
        return order, replace(charge, source=HostedPage(page.session_id)), page

    async def work_for(self, **time: int) -> None:
        """Advance the clock in steps of a minute and run the worker."""
        end = self.clock.now + timedelta(**time)
        while self.clock.now < end:
            self.clock.advance(minutes=1)
            while await self.work():
                pass
