"""The person pays: one order and one charge, however often the button is pressed, in however many windows.

The order and its pending charge are committed before any gateway is asked, as everywhere: see `charge_cards.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from tonne.accounts.directory import AccountDirectory
from tonne.base.clock import Clock
from tonne.base.idempotency import Idempotency
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.cards.charge_store import find_pending, make_due_any_account, read_chargeable, record_page
from tonne.cards.model import ChargeAttempt, RetrySchedule
from tonne.cards.open_charges import open_charges
from tonne.cards.settle_charges import settle_charges
from tonne.catalog.price import PriceRequest
from tonne.catalog.pricing import Priced
from tonne.catalog.selection import BundleChoiceIn
from tonne.catalog.snapshot import Catalogues
from tonne.checkout import queue, store
from tonne.checkout.errors import (
    AlreadyPaid,
    CheckoutNotFound,
    CheckoutOver,
    OffsetLinkClosed,
    PaymentPageUnavailable,
    PriceChanged,
    TestCardUnknown,
)
from tonne.checkout.link_model import OffsetLink
from tonne.checkout.link_store import find_link_any_account
from tonne.checkout.model import CHECK_INTERVAL, Checkout, CheckoutStatus, hash_token
from tonne.checkout.offer import price_offer
from tonne.db.pool import Connection, Database
from tonne.events.notify import Notifier
from tonne.gateways.card import CardGateway, ChargeOutcome, ChargeResult, HostedPage, StoredCard
from tonne.gateways.card_gateways import GATEWAY_OF
from tonne.gateways.card_simulated import SIMULATED_CARDS
from tonne.gateways.payment_page import PageNotOpened, PageRequest, PaymentPages
from tonne.invoices.cancel_order import cancel_order
from tonne.orders.model import Order, OrderStatus
from tonne.orders.place_order import CheckoutCustomer, OrderRequest, place_order
from tonne.orders.queue import lock_order

# The gateway wants its page to live for half an hour at least.
PAGE_LIFE = timedelta(minutes=35)
_TEST_NUMBERS = {card.number for card in SIMULATED_CARDS}
_ACTOR = "checkout"


@dataclass(frozen=True, slots=True)
class _Step:
    """What is to be done outside the transaction: ask about a charge, if there is one to ask about."""

    link: OffsetLink
    order: Order
    attempt: ChargeAttempt | None


def _wanted_of(checkout: Checkout) -> PriceRequest:
    choices = [msgspec.convert(choice, BundleChoiceIn) for choice in checkout.bundle_selection]
    return PriceRequest(
        mass_grams=checkout.requested_quantity_grams, value_minor=checkout.requested_value_minor, choices=choices
    )


def read_test_card(text: str) -> str:
    """The number of a test card. Nothing else is ever stored, logged or repeated."""
    number = "".join(text.split()).replace("-", "")
    if number not in _TEST_NUMBERS:
        raise TestCardUnknown(field="card_number")
    return number


class PayCheckout:
    def __init__(
        self,
        database: Database,
        gateways: Mapping[str, CardGateway],
        catalogues: Catalogues,
        directory: AccountDirectory,
        *,
        clock: Clock,
        settings: Settings,
        notifier: Notifier,
    ) -> None:
        self._database = database
        self._gateways = gateways
        self._catalogues = catalogues
        self._directory = directory
        self._clock = clock
        self._settings = settings
        self._base_url = settings.base_url
        self._schedule = RetrySchedule(settings)
        self._notifier = notifier

    async def price(self, checkout: Checkout, link: OffsetLink) -> Priced:
        """What a checkout without an order costs now."""
        terms = await self._directory.terms_of(checkout.scope)
        return price_offer(link, _wanted_of(checkout), terms, await self._catalogues.current(checkout.scope.mode))

    async def pay_by_test_card(self, token: str, shown_total: int, number: str) -> None:
        """Charge a test card now. What came of it, the checkout's page shows."""
        checkout = await self._find(token, Mode.TEST)
        step = await self._step(token, checkout, shown_total, StoredCard(checkout.id, number))
        if step.attempt is not None and step.attempt.is_new:
            answer = await self._gateways[step.attempt.gateway].charge(step.attempt.request)
            await self._settle(step.attempt, answer)
        self._notifier.notify()

    async def open_page(self, token: str, shown_total: int) -> str | None:
        """The address of the gateway's page; None when there is nothing more to pay there."""
        checkout = await self._find(token, Mode.LIVE)
        pages = self._pages()
        step = await self._step(token, checkout, shown_total, HostedPage())
        self._notifier.notify()
        if step.attempt is None:
            return None
        request = step.attempt.request
        try:
            page = await pages.open_page(
                PageRequest(
                    charge=request,
                    email=checkout.email,
                    title=step.link.title,
                    paid_url=f"{self._base_url}/checkout/{token}?paid=1",
                    back_url=f"{self._base_url}/checkout/{token}",
                    expires_at=self._clock() + PAGE_LIFE,
                )
            )
        except PageNotOpened as error:
            if step.attempt.is_new:
                await self._settle(
                    step.attempt, ChargeResult(ChargeOutcome.UNAVAILABLE, code="page", message=str(error))
                )
                raise PaymentPageUnavailable from error
            # It is over: paid, perhaps. The worker asks what came of it.
            await self.look_now(step.order)
            return None
        async with self._database.connection() as connection:
            # Recorded before the redirect, so that a worker can look the page up. If the charge has been settled
            # meanwhile, nobody would notice a payment on that page.
            is_recorded = await record_page(connection, request, page.session_id)
        return page.url if is_recorded else None

    async def look_now(self, order: Order) -> None:
        """Somebody waits for what came of a charge: the worker shall ask at once."""
        async with self._database.connection() as connection:
            attempt = await find_pending(connection, order)
            if attempt is not None:
                await make_due_any_account(connection, attempt.request.id, attempt.gateway, self._clock())
        self._notifier.notify()

    async def _find(self, token: str, mode: Mode) -> Checkout:
        async with self._database.connection() as connection:
            checkout = await store.find_checkout(connection, hash_token(token))
        if checkout is None or checkout.scope.mode is not mode:
            raise CheckoutNotFound
        return checkout

    def _pages(self) -> PaymentPages:
        gateway = self._gateways.get(GATEWAY_OF[Mode.LIVE])
        if gateway is None or not isinstance(gateway, PaymentPages):
            raise PaymentPageUnavailable
        return gateway

    async def _step(self, token: str, checkout: Checkout, shown_total: int, source: StoredCard | HostedPage) -> _Step:
        """The order, made if there is none yet, and a charge of it that may be paid now; all on record."""
        # Before the transaction: one request never holds one connection and waits for another.
        terms = await self._directory.terms_of(checkout.scope)
        catalogue = await self._catalogues.current(checkout.scope.mode)
        now = self._clock()
        async with self._database.transaction() as tx:
            if checkout.external_id is not None:
                await store.lock_reference(tx, checkout.scope, f"{checkout.offset_link_id} {checkout.external_id}")
            held = await store.lock_checkout(tx, hash_token(token))
            link = None if held is None else await find_link_any_account(tx, held.offset_link_id)
            if held is None or link is None:
                raise CheckoutNotFound
            if held.status is CheckoutStatus.CLOSED:
                raise CheckoutOver
            if held.status is CheckoutStatus.OPEN:
                if now >= held.expires_at:
                    raise CheckoutOver
                if not link.is_open(now):
                    raise OffsetLinkClosed
                wanted = _wanted_of(held)
                priced = price_offer(link, wanted, terms, catalogue)
                if priced.total_cost_minor != shown_total:
                    raise PriceChanged
                await self._make_way(tx, held, now)
                request = OrderRequest(
                    wanted=wanted,
                    idempotency=Idempotency(None, hash_token(held.id)),
                    metadata=_metadata(held),
                    customer=CheckoutCustomer(link.id, held.email),
                )
                placed = await place_order(
                    tx, held.scope, request, terms, catalogue, now=now, retry_after=CHECK_INTERVAL
                )
                if placed is None:
                    raise LookupError(f"{held.id} has no order, but its key is taken")
                order = placed.order
                await store.set_ordered(tx, held.scope, held.id, order, now + CHECK_INTERVAL)
            else:
                order = await _require_order(tx, held)
                if order.status is OrderStatus.PLACED and held.total_cost_minor != shown_total:
                    raise PriceChanged
            return _Step(link, order, await self._attempt(tx, held, order, source, now))

    async def _make_way(self, tx: Connection, checkout: Checkout, now: datetime) -> None:
        """With an external id a flow completes once: another window that has not paid gives way, one that has wins."""
        if checkout.external_id is None:
            return
        other = await store.lock_ordered(tx, checkout.scope, checkout.offset_link_id, checkout.external_id)
        if other is None:
            return
        order = await _require_order(tx, other)
        if order.status is OrderStatus.PLACED:
            if (await read_chargeable(tx, [order.key]))[0].has_open_charge:
                raise AlreadyPaid
            await cancel_order(
                tx, order, settings=self._settings, actor=_ACTOR, reason="Begun again in another window.", now=now
            )
        elif order.status not in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
            raise AlreadyPaid
        await queue.close(tx, other.scope, other.id)

    async def _attempt(
        self, tx: Connection, checkout: Checkout, order: Order, source: StoredCard | HostedPage, now: datetime
    ) -> ChargeAttempt | None:
        """A charge to ask about: a new one, or the one that is open. None when nothing is left to pay."""
        if order.status is not OrderStatus.PLACED:
            return None
        [chargeable] = await read_chargeable(tx, [order.key])
        if chargeable.has_open_charge:
            return await find_pending(tx, order)
        if now >= checkout.expires_at:
            raise CheckoutOver
        if isinstance(source, HostedPage):
            await store.extend(tx, checkout.scope, checkout.id, now + PAGE_LIFE)
        opened = await open_charges(tx, [chargeable.paid_with(source)], now, now + self._schedule.lease())
        return opened.attempts[0]

    async def _settle(self, attempt: ChargeAttempt, answer: ChargeResult) -> None:
        async with self._database.transaction() as tx:
            await settle_charges(tx, [(attempt, answer)], [], self._clock(), self._schedule)


async def _require_order(tx: Connection, checkout: Checkout) -> Order:
    order = await lock_order(tx, checkout.scope, checkout.order_id or "")
    if order is None:
        raise LookupError(f"{checkout.id} has no order")
    return order


def _metadata(checkout: Checkout) -> str:
    """What the client needs to know the order again."""
    if checkout.external_id is None:
        return "{}"
    return msgspec.json.encode({"external_id": checkout.external_id}).decode()
