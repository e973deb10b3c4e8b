"""The page of a checkout: the order, the payment, and the progress up to the certificate."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tonne.channels.checkout import model, store
from tonne.channels.checkout.errors import (
    CheckoutNotFound,
    CheckoutOver,
    DeliveryMayWait,
    OffsetLinkClosed,
    SellerTakesNoCards,
    VatIdUnconfirmed,
)
from tonne.channels.checkout.link_counts.counts import LinkCounts
from tonne.channels.checkout.links.model import OffsetLink, with_query
from tonne.channels.checkout.links.offer import PricedOffer, compare_with_start, read_shown_offer
from tonne.channels.checkout.links.store import find_link_any_account
from tonne.channels.checkout.order_checkout import Buyer, ordered_offer
from tonne.channels.checkout.order_pages.order_summary import read_order_summary, summary_values
from tonne.channels.checkout.paying import payment_form
from tonne.channels.checkout.paying.attempt_limit import AttemptLimit
from tonne.channels.checkout.paying.buyers import AskedDetails, details_to_ask
from tonne.channels.checkout.paying.consent import WithdrawalTexts
from tonne.channels.checkout.paying.pay_checkout import PayCheckout
from tonne.channels.checkout.paying.simulated_bank import SimulatedBank
from tonne.money.cards.captured_store import find_captured
from tonne.money.cards.charge_store import Decline, find_last_decline, find_pending
from tonne.money.cards.gateways.card_simulated import SIMULATED_CARDS
from tonne.money.cards.gateways.metered_gateway import GATEWAY_NAMES, GATEWAY_OF
from tonne.money.cards.model import ChargeAttempt, ChargeStatus
from tonne.platform.db.database import Connection, Database
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, replace
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import N_
from tonne.platform.web.render import FormGuard, Renderer, see_other
from tonne.platform.web.shown_errors import texts_of
from tonne.platform.web.visitor import country_names, visitor_language
from tonne.platform.web.wording import LocalWording
from tonne.selling.accounts.logos.merchant import Merchant, find_merchant
from tonne.selling.orders.buyer import BuyerDetails, can_reverse_charge, find_buyer
from tonne.selling.orders.errors import OfferChanged
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Beneficiary, Order, OrderKey, OrderStatus
from tonne.supply.certificates.credentials.issue_credential import RenderCertificate
from tonne.supply.certificates.record import CertificateRecord
from tonne.supply.certificates.store import find_certificate

_PAID = (OrderStatus.PAID, OrderStatus.RETIRING, OrderStatus.COMPLETE)
# What visitors see instead of the gateway's message, which is often technical.
_DECLINED = {
    "insufficient_funds": N_("The card has insufficient funds."),
    "expired_card": N_("The card has expired."),
    "authentication_required": N_("The bank asked for a confirmation that wasn't given."),
    "page_expired": N_("The payment page expired."),
    "page": N_("The payment page couldn't be opened."),
}
_DECLINED_OTHERWISE = N_("The bank declined the payment.")


class _CheckoutView(msgspec.Struct, frozen=True):
    """Everything the page shows, read from one snapshot."""

    token: str
    checkout: model.Checkout
    link: OffsetLink
    merchant: Merchant
    order: Order | None = None
    failure: Decline | None = None
    pending: ChargeAttempt | None = None
    # A payment arrived with another amount: the operator decides what becomes of it.
    is_mismatched: bool = False
    certificate: CertificateRecord | None = None
    # What the customer stated with the order, else what the client sent.
    buyer: BuyerDetails | None = None

    @property
    def state(self) -> str:
        """The script reloads the page when this changes."""
        if self.order is not None and self.order.status in _PAID:
            return str(self.order.status)
        if self.is_mismatched:
            return "mismatched"
        if self.order is not None and self.order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
            return "cancelled"
        return "under_way" if self.pending is not None else "to_pay"

    @property
    def is_first_page(self) -> bool:
        """Whether the visitor sees no page before this one, because the API created the checkout."""
        return self.order is None and self.checkout.metadata is not None

    @property
    def asks_for_name(self) -> bool:
        return self.checkout.is_without_name and self.link.asks_for_name

    def asks(
        self, offer: PricedOffer | None, settings: Settings, buyer: BuyerDetails | None
    ) -> payment_form.AskedFields:
        mode, details = self.checkout.scope.mode, AskedDetails()
        if offer is not None:
            due, treatment = offer.amount_due_minor, offer.tax.treatment
            details = details_to_ask(due, offer.priced.currency, treatment, mode, settings, buyer=buyer)
        return payment_form.AskedFields(card=mode is Mode.TEST, name=self.asks_for_name, details=details)


class StateOut(msgspec.Struct):
    state: str


class CheckoutPage(msgspec.Struct, frozen=True, kw_only=True):
    database: Database
    renderer: Renderer
    guard: FormGuard
    clock: Clock
    payment: PayCheckout
    withdrawal: WithdrawalTexts
    payment_limit: AttemptLimit
    certificate_limit: AttemptLimit
    certificates: RenderCertificate
    counts: LinkCounts
    bank: SimulatedBank

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return self.payment_limit.buckets, self.certificate_limit.buckets

    async def show(self, request: Request) -> Response:
        view = await self._view(request)
        (returned,) = request.query("paid")
        if returned is not None and view.order is not None and view.pending is not None:
            await self.payment.look_up_now(view.order)
        if view.state == "to_pay":
            if view.is_first_page:
                self.counts.count_sent_page(view.link, request)
            return await self._show_payment(request, view)
        return await self._show_progress(request, view)

    async def pay(self, request: Request) -> Response:
        """In test mode by a test card, in live mode on the gateway's page."""
        fields = self.guard.check(request)
        self.payment_limit.count(request)
        view = await self._view(request)
        shown, form = read_shown_offer(fields), payment_form.read_payment_form(fields, view.buyer)
        faults: list[TonneError] = []
        language = visitor_language(request, await self._default_language(view))
        text = self.withdrawal.text_in(language.translator)
        asked = view.asks(await self._offer_if_any(view, form.buyer), self.payment.settings, form.buyer)
        number, payer = payment_form.read_payer(
            fields, form, asked, text, faults, now=self.clock(), language=language.code
        )
        # The button that opens the gateway's page again has no fields: its order was placed with the consent.
        if faults and (asked.card or view.state == "to_pay"):
            return await self._show_again(request, view, faults=faults, form=form)
        # In its canonical spelling, with which the next page is priced.
        form, address = replace(form, buyer=payer.buyer or form.buyer), f"/checkout/{view.token}"
        try:
            await self.payment.require_confirmed(view.checkout, payer.buyer, form.taxed_vat_id)
            if view.checkout.scope.mode is Mode.TEST:
                if await self.payment.pay_by_test_card(view.token, shown, number, payer=payer):
                    address += "/bank"
                url = None
            else:
                buyer = Buyer(request.limited_as, form.accepts_waiting)
                url = await self.payment.open_page(view.token, shown, buyer, payer=payer)
        except OfferChanged:
            return await self._show_again(request, await self._view(request), form=form, was_refused=True)
        except DeliveryMayWait as notice:
            self.payment.unheld.inc(notice.why, "told")
            form = replace(form, accepts_waiting=True)
            return await self._show_again(request, await self._view(request), form=form)
        except (CheckoutNotFound, CheckoutOver, OffsetLinkClosed):
            raise
        except TonneError as fault:
            if isinstance(fault, VatIdUnconfirmed):
                form = replace(form, taxed_vat_id=form.buyer.vat_id or "")
            return await self._show_again(request, await self._view(request), faults=[fault], form=form)
        if url is None:
            return see_other(address)
        # Not a redirect: `form-action` in the content security policy would block it.
        return self.renderer.page(request, "leaving.html", url=url)

    async def _show_again(
        self,
        request: Request,
        view: _CheckoutView,
        *,
        form: payment_form.PaymentForm,
        faults: Sequence[TonneError] = (),
        was_refused: bool = False,
    ) -> Response:
        """The form as it was filled in, which a redirect would lose. There is none if another tab has paid."""
        if view.state != "to_pay":
            return see_other(f"/checkout/{view.token}")
        return await self._show_payment(request, view, faults=faults, form=form, was_refused=was_refused)

    async def show_bank(self, request: Request) -> Response:
        return await self.bank.show(request, (await self._view(request)).order)

    async def answer_bank(self, request: Request) -> Response:
        view = await self._view(request)
        return await self.bank.answer(request, view.order, f"/checkout/{view.token}")

    async def state(self, request: Request) -> Response:
        response = json_response(StateOut((await self._view(request)).state))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def certificate(self, request: Request) -> Response:
        """Available even if the account does not publish its certificates. Limited: rendering a PDF costs CPU time."""
        self.certificate_limit.count(request)
        view = await self._view(request)
        if view.certificate is None:
            raise CheckoutNotFound(N_("There is no certificate yet. Come back when the order is complete."))
        response = await self.certificates.answer(view.certificate)
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _view(self, request: Request) -> _CheckoutView:
        token = request.path("token")
        if not model.is_token(token):
            raise CheckoutNotFound
        async with self.database.snapshot() as connection:
            checkout = await store.find_checkout(connection, model.hash_token(token))
            link = None if checkout is None else await find_link_any_account(connection, checkout.offset_link_id)
            if checkout is None or link is None:
                raise CheckoutNotFound
            order = await _find_order(connection, checkout)
            found = (token, checkout, link, await find_merchant(connection, link.scope, link.id))
            if order is None:
                return _CheckoutView(*found, buyer=checkout.buyer)
            return _CheckoutView(
                *found,
                order,
                await find_last_decline(connection, order),
                pending=await find_pending(connection, order),
                is_mismatched=any(
                    charge.status is ChargeStatus.MISMATCHED for charge in await find_captured(connection, order)
                ),
                certificate=await find_certificate(connection, order.scope, order.id),
                buyer=await find_buyer(connection, order.scope, order.id),
            )

    async def _show_payment(
        self,
        request: Request,
        view: _CheckoutView,
        *,
        faults: Sequence[TonneError] = (),
        form: payment_form.PaymentForm | None = None,
        was_refused: bool = False,
    ) -> Response:
        checkout, default = view.checkout, await self._default_language(view)
        language = visitor_language(request, default)
        is_over = checkout.status is model.CheckoutStatus.CLOSED or self.clock() >= checkout.expires_at
        if is_over:
            return self.renderer.page(
                request, "checkout_over.html", status=410, default_language=default, **_frame(view)
            )
        offer, form = None, form or payment_form.form_of(checkout.consent, view.buyer)
        can_pay = self.payment.takes_cards(checkout.scope.mode)
        try:
            if not can_pay:
                raise SellerTakesNoCards
            offer = await self._offer(view, form.buyer)
        except TonneError as unpriced:
            faults = faults or [unpriced]
        token, headers = self.guard.issue(request)
        failure, texts = view.failure, texts_of(faults, language.translator)
        declined = None if failure is None or texts else language.translator(_explain(failure))
        return self.renderer.page(
            request,
            "checkout_pay.html",
            default_language=default,
            status=422 if faults else 200,
            headers=headers,
            checkout=checkout,
            priced=None if offer is None else offer.priced,
            tax=None if offer is None else offer.tax,
            offer=None if offer is None else offer.digest.hex(),
            change=None if offer is None else compare_with_start(checkout, offer),
            was_refused=was_refused,
            can_pay=can_pay,
            faults=texts,
            focused=next((name for name in payment_form.FIELDS if name in texts), "card_number" if declined else None),
            declined=declined,
            form_token=token,
            form=form,
            asked=view.asks(offer, self.payment.settings, form.buyer).details,
            countries=country_names(language.locale),
            takes_vat_id=offer is not None and can_reverse_charge(self.payment.settings),
            fields_of_form=payment_form.FIELDS,
            withdrawal=self.withdrawal.text_in(language.translator),
            gateway=GATEWAY_NAMES[GATEWAY_OF[checkout.scope.mode]],
            seller_email=self.payment.settings.seller_email,
            terms_url=self.payment.settings.terms_url,
            privacy_url=self.payment.settings.privacy_url,
            cards=SIMULATED_CARDS,
            beneficiary=await self._beneficiary(view),
            **await self._name_form(view, form),
            **_frame(view),
        )

    async def _name_form(self, view: _CheckoutView, form: payment_form.PaymentForm | None) -> dict[str, Any]:
        """The values of `_name.html`, if the page asks for the customer's name."""
        if not view.asks_for_name:
            return {"filled": None}
        terms = await self.payment.directory.terms_of(view.checkout.scope)
        return {"filled": form or payment_form.PaymentForm(), "account_beneficiary": terms.beneficiary}

    async def _offer_if_any(self, view: _CheckoutView, buyer: BuyerDetails) -> PricedOffer | None:
        try:
            return await self._offer(view, buyer)
        except TonneError:
            return None

    async def _offer(self, view: _CheckoutView, buyer: BuyerDetails) -> PricedOffer:
        """The current offer to this buyer, or what was ordered."""
        if view.order is not None and view.order.priced is not None:
            return PricedOffer(view.order.priced, view.order.tax, ordered_offer(view.checkout).digest)
        return await self.payment.price(view.checkout, view.link, buyer)

    async def _default_language(self, view: _CheckoutView) -> str:
        """For visitors whose browser names none of our languages."""
        if view.order is not None:
            return view.order.language
        return view.link.language or (await self.payment.directory.terms_of(view.checkout.scope)).language

    async def _beneficiary(self, view: _CheckoutView) -> Beneficiary:
        """In whose name the certificate is issued."""
        order = view.order
        if order is not None:
            return Beneficiary(order.beneficiary, order.beneficiary_kind, order.beneficiary_is_public)
        terms = await self.payment.directory.terms_of(view.checkout.scope)
        return view.checkout.beneficiary or Beneficiary(terms.beneficiary)

    async def _show_progress(self, request: Request, view: _CheckoutView) -> Response:
        order, settings = view.order, self.payment.settings
        if order is None:
            raise CheckoutNotFound
        async with self.database.snapshot() as connection:
            summary = await read_order_summary(connection, order, settings=settings, now=self.clock())
        default = await self._default_language(view)
        language = visitor_language(request, default)
        token, headers = self.guard.issue(request)
        return self.renderer.page(
            request,
            "checkout_progress.html",
            default_language=default,
            headers=headers,
            form_token=token,
            checkout=view.checkout,
            state=view.state,
            to_confirm=view.pending is not None and view.pending.confirm_until is not None,
            tax=order.tax,
            offer=ordered_offer(view.checkout).digest.hex(),
            refresh_s=None if view.state in {"complete", "cancelled"} else 5,
            **{**summary_values(summary, LocalWording(language.translator, language.locale), settings), **_frame(view)},
        )


async def _find_order(connection: Connection, checkout: model.Checkout) -> Order | None:
    if checkout.order_id is None:
        return None
    orders = await load_orders(connection, [OrderKey(checkout.scope.account_id, checkout.order_id)])
    return orders[0] if orders else None


def _frame(view: _CheckoutView) -> dict[str, Any]:
    """The values that all templates of a checkout need."""
    checkout = view.checkout
    back = checkout.redirect.url
    if back is not None and view.state in {str(status) for status in _PAID}:
        added = {"temporary_id": model.temporary_id_of(view.token)}
        if checkout.external_id is not None:
            added["external_id"] = checkout.external_id
            added["external_id_verified"] = str(checkout.external_id_verified).lower()
        back = with_query(back, added)
    return {
        "test_mode": checkout.scope.mode is Mode.TEST,
        "link": view.link,
        "merchant": view.merchant,
        "token": view.token,
        # With what the visitor entered before.
        "again": f"/offset/{view.link.id}?edit={view.token}" if checkout.can_start_again else None,
        "back": back,
        "back_label": checkout.redirect.label or (back or "").partition("://")[2].partition("/")[0],
        "temporary_minutes": int(model.TEMPORARY_ID_LIFE.total_seconds() // 60),
    }


def _explain(failure: Decline) -> str:
    return _DECLINED.get(failure.code or "", _DECLINED_OTHERWISE)
