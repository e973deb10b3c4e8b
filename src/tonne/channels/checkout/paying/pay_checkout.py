"""Paying a checkout: one order and one charge, however often and in however many tabs the visitor clicks.

The order and its pending charge are committed before the gateway is called, as in `money/cards/charge_cards.py`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from tonne.channels.checkout import store
from tonne.channels.checkout.errors import (
    CheckoutNotFound,
    CheckoutOver,
    PaymentPageUnavailable,
    SellerTakesNoCards,
    VatIdUnconfirmed,
)
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.offer import LinkOffer, PricedOffer, ShownOffer, price_offer
from tonne.channels.checkout.links.store import find_link_any_account
from tonne.channels.checkout.model import Checkout, hash_token
from tonne.channels.checkout.order_checkout import Buyer, holding, order_checkout, price_request_of
from tonne.channels.checkout.paying.consent import Consent, WithdrawalText
from tonne.money.cards.charge_store import find_pending, make_due_any_account, read_chargeable, record_page
from tonne.money.cards.charges import open_charges, settle_charges
from tonne.money.cards.gateways.card import (
    CardGateway,
    ChargeOutcome,
    ChargeResult,
    HostedPage,
    PageNotOpened,
    PageRequest,
    PaymentPages,
    StoredCard,
)
from tonne.money.cards.gateways.metered_gateway import GATEWAY_OF
from tonne.money.cards.model import ChargeAttempt, RetrySchedule
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.process.telemetry.instruments import CounterFamily, Metric
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, replace
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.model import Terms
from tonne.selling.accounts.tax.check_vat_ids import CheckVatIds
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders.buyer import REVERSE_CHARGE, BuyerDetails, owes_tax_itself, tax_at_checkout, taxed_abroad
from tonne.selling.orders.model import Beneficiary, Order, OrderStatus
from tonne.selling.orders.queue import charges_in

ADD_TEXT = """
INSERT INTO consent_texts (version, language, text, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (version) DO NOTHING
"""


async def add_text(tx: Connection, text: WithdrawalText, now: datetime) -> None:
    """Keep the wording, to be able to show later what was agreed to."""
    await tx.execute(ADD_TEXT, text.version, text.language, text.text, now)


SET_CONSENT = """
UPDATE checkouts SET buyer_kind = $3, consent_version = $4, consent_language = $5, consented_at = $6
WHERE account_id = $1 AND id = $2
"""


async def set_consent(tx: Connection, checkout: Checkout) -> None:
    consent = checkout.consent
    if consent is not None:
        given = (consent.buyer, consent.version, consent.language, consent.at)
        await tx.execute(SET_CONSENT, checkout.scope.account_id, checkout.id, *given)


# Stripe requires its pages to stay open for at least 30 minutes.
PAGE_LIFE = timedelta(minutes=35)
_AFTER_PAYMENT = (WorkKind.EVENTS, WorkKind.PAID_ORDERS, WorkKind.REFUNDS, WorkKind.ORDER_MAILS)


class _Payment(Struct, frozen=True):
    """A committed order and its open charge. `attempt` is None if nothing is left to pay."""

    link: OffsetLink
    order: Order
    attempt: ChargeAttempt | None


class Agreed(Struct, frozen=True):
    """What the customer agreed to, and the text that was shown."""

    consent: Consent
    text: WithdrawalText


class CheckoutPayer(Struct, frozen=True):
    """`customer` is the name for the certificate, if the page asked for it. `agreed` is None if it did not ask.

    `language` is that of the page.
    """

    customer: Beneficiary | None
    agreed: Agreed | None
    language: str
    # For the tax document. None: nothing was asked or stated.
    buyer: BuyerDetails | None = None


class _Form(Struct, frozen=True):
    """What the page showed, and what the customer entered."""

    checkout: Checkout
    shown: ShownOffer
    payer: CheckoutPayer


def _unheld_counter() -> CounterFamily:
    text = "Tries to pay a live checkout for which nothing could be held: told that delivery may wait, or paying so."
    return CounterFamily("tonne_holds_unheld_total", text, "reason", "step")


class PayCheckout(Struct, frozen=True):
    database: Database
    gateways: Mapping[str, CardGateway]
    catalogues: Catalogues
    directory: AccountDirectory
    clock: Clock
    settings: Settings
    notifier: Notifier
    vat_ids: CheckVatIds
    unheld: CounterFamily = msgspec.field(default_factory=_unheld_counter)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (self.unheld,)

    def takes_cards(self, mode: Mode) -> bool:
        return GATEWAY_OF[mode] in self.gateways

    async def price(self, checkout: Checkout, link: OffsetLink, buyer: BuyerDetails | None) -> PricedOffer:
        """The current offer of a checkout without an order."""
        terms, catalogue = await self._price_basis(checkout, buyer)
        return price_offer(LinkOffer(link, terms, catalogue), price_request_of(checkout))

    async def require_confirmed(self, checkout: Checkout, buyer: BuyerDetails | None, taxed_vat_id: str) -> None:
        """Ask about a VAT id that would spare the buyer the tax. Raises VatIdUnconfirmed, unless they know that.

        Not within a transaction.
        """
        if buyer is None or checkout.order_id is not None or checkout.scope.mode is Mode.TEST:
            return
        needs_answer = owes_tax_itself(buyer, self.settings)
        is_confirmed = needs_answer and await self.vat_ids.confirm(buyer.vat_id or "")
        if needs_answer and not is_confirmed and buyer.vat_id != taxed_vat_id:
            raise VatIdUnconfirmed(field="buyer_vat_id")

    async def _price_basis(self, checkout: Checkout, buyer: BuyerDetails | None) -> tuple[Terms, Catalogue]:
        """Call it before acquiring a connection: holding one while waiting for another could exhaust the pool."""
        tax = await self.database.run(tax_at_checkout, buyer, self.settings, self.clock())
        if tax == REVERSE_CHARGE and buyer is not None and checkout.scope.mode is Mode.LIVE:
            tax = tax if await self.vat_ids.is_confirmed(buyer.vat_id or "") else None
        terms = (await self.directory.terms_of(checkout.scope)).at_checkout(tax)
        return terms, await self.catalogues.current(checkout.scope.mode)

    async def pay_by_test_card(self, token: str, shown: ShownOffer, number: str, *, payer: CheckoutPayer) -> bool:
        """Charge a test card: whether the bank asks for a confirmation. The result is in the order and its charges."""
        checkout = await self._find(token, Mode.TEST)
        basis = await self._price_basis(checkout, payer.buyer)
        card = StoredCard(checkout.id, number)
        payment = await self._start_payment(token, _Form(checkout, shown, payer), card, basis)
        attempt = payment.attempt
        to_confirm = attempt is not None and attempt.confirm_until is not None
        if attempt is not None and attempt.is_new:
            result = await self.gateways[attempt.gateway].charge(attempt.request)
            await self._settle(attempt, result)
            to_confirm = result.kind is ChargeOutcome.AUTHENTICATION_REQUIRED
        self.notifier.notify(*_AFTER_PAYMENT, scope=checkout.scope)
        return to_confirm

    async def open_page(self, token: str, shown: ShownOffer, buyer: Buyer, *, payer: CheckoutPayer) -> str | None:
        """The URL of the gateway's payment page. None if there is nothing left to pay there."""
        checkout = await self._find(token, Mode.LIVE)
        pages = self.gateways.get(GATEWAY_OF[Mode.LIVE])
        if pages is None:
            raise SellerTakesNoCards
        if not isinstance(pages, PaymentPages):
            raise PaymentPageUnavailable
        basis = await self._price_basis(checkout, payer.buyer)
        hold = holding(self.database, checkout, basis, buyer=buyer, settings=self.settings, now=self.clock())
        async with hold as unheld:
            if unheld is not None:
                self.unheld.inc(unheld, "paying")
            # With the same catalogue: a later one would not count the held grams as free.
            payment = await self._start_payment(token, _Form(checkout, shown, payer), HostedPage(), basis)
        self.notifier.notify(WorkKind.EVENTS, scope=checkout.scope)
        if payment.attempt is None:
            return None
        address = f"{self.settings.base_url}/checkout/{token}"
        request = PageRequest(
            charge=payment.attempt.request,
            email=checkout.email,
            title=payment.link.title,
            paid_url=f"{address}?paid=1",
            back_url=address,
            expires_at=self.clock() + PAGE_LIFE,
        )
        try:
            page = await pages.open_page(request)
        except PageNotOpened as error:
            if payment.attempt.is_new:
                result = ChargeResult(ChargeOutcome.UNAVAILABLE, code="page", message=str(error))
                await self._settle(payment.attempt, result)
                raise PaymentPageUnavailable from error
            # The page is closed, perhaps because it was paid. The worker looks it up.
            await self.look_up_now(payment.order)
            return None
        async with self.database.connection() as connection:
            # Recorded before the redirect, so that a worker can look the page up. If the charge has been settled
            # meanwhile, nobody would notice a payment on that page.
            is_recorded = await record_page(connection, payment.attempt.request, page.session_id)
        return page.url if is_recorded else None

    async def look_up_now(self, order: Order) -> None:
        """Make the pending charge due: the visitor is waiting for its result."""
        async with self.database.connection() as connection:
            attempt = await find_pending(connection, order)
            if attempt is not None:
                await make_due_any_account(connection, attempt.request.id, attempt.gateway, self.clock())
        self.notifier.notify(charges_in(order.scope.mode))

    async def _find(self, token: str, mode: Mode) -> Checkout:
        checkout = await self.database.run(store.find_checkout, hash_token(token))
        if checkout is None or checkout.scope.mode is not mode:
            raise CheckoutNotFound
        return checkout

    async def _start_payment(
        self,
        token: str,
        form: _Form,
        source: StoredCard | HostedPage,
        basis: tuple[Terms, Catalogue],
    ) -> _Payment:
        """Commit the order and an open charge: if the process dies while calling the gateway, a worker finds them."""
        async with self.database.transaction() as tx:
            checkout, link = await _lock(tx, token, form.checkout)
            payer = form.payer
            if payer.customer is not None and checkout.is_without_name and link.asks_for_name:
                checkout = replace(checkout, beneficiary=payer.customer)
                await store.set_beneficiary(tx, checkout)
            offer, buyer = LinkOffer(link, *basis), payer.buyer
            if buyer is not None:
                buyer = replace(buyer, taxed_in=taxed_abroad(buyer, self.settings))
            order = await order_checkout(
                tx, checkout, offer, shown=form.shown, language=payer.language, buyer=buyer, now=self.clock()
            )
            if payer.agreed is not None and order.status is OrderStatus.PLACED:
                await _record_consent(tx, checkout, payer.agreed)
            attempt = await self._open_charge(tx, checkout, order, source)
        return _Payment(link, order, attempt)

    async def _open_charge(
        self, tx: Connection, checkout: Checkout, order: Order, source: StoredCard | HostedPage
    ) -> ChargeAttempt | None:
        """The open charge of the order, or a new one. None if nothing is left to pay."""
        now = self.clock()
        if order.status is not OrderStatus.PLACED:
            return None
        [chargeable] = await read_chargeable(tx, [order.key])
        if chargeable.has_open_charge:
            return await find_pending(tx, order)
        if now >= checkout.expires_at:
            raise CheckoutOver
        if isinstance(source, HostedPage):
            await store.extend(tx, checkout.scope, checkout.id, now + PAGE_LIFE)
        opened = await open_charges(tx, [chargeable.paid_with(source)], now, now + RetrySchedule(self.settings).lease())
        return opened.attempts[0]

    async def _settle(self, attempt: ChargeAttempt, result: ChargeResult) -> None:
        async with self.database.transaction() as tx:
            schedule = RetrySchedule(self.settings)
            await settle_charges(tx, [(attempt, result)], [], self.clock(), schedule)


async def _record_consent(tx: Connection, checkout: Checkout, agreed: Agreed) -> None:
    """Committed with the order, before the card is charged. A repeated consent keeps the time of the first."""
    if not agreed.consent.is_same(checkout.consent):
        await add_text(tx, agreed.text, agreed.consent.at)
        await set_consent(tx, replace(checkout, consent=agreed.consent))


async def _lock(tx: Connection, token: str, checkout: Checkout) -> tuple[Checkout, OffsetLink]:
    """Serialises payments of one checkout, and of all checkouts of a link with the same verified external id."""
    if checkout.external_id is not None and checkout.external_id_verified:
        await store.lock_external_id(tx, checkout)
    locked = await store.lock_checkout(tx, hash_token(token))
    link = None if locked is None else await find_link_any_account(tx, locked.offset_link_id)
    if locked is None or link is None:
        raise CheckoutNotFound
    return locked, link
