"""The page of a checkout: the order, the payment, and the progress up to the certificate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tonne.base.clock import Clock
from tonne.base.errors import TonneError
from tonne.base.scope import Mode
from tonne.cards.captured_store import find_captured
from tonne.cards.charge_store import Decline, find_last_decline, find_pending
from tonne.cards.model import ChargeStatus
from tonne.cards.read_test_card import read_test_card
from tonne.checkout import store
from tonne.checkout.attempt_limit import AttemptLimit
from tonne.checkout.begin_checkout import NAME_FIELD, PUBLIC_FIELD, read_customer_name
from tonne.checkout.errors import (
    CheckoutNotFound,
    CheckoutOver,
    OfferChanged,
    OffsetLinkClosed,
    SellerTakesNoCards,
)
from tonne.checkout.link_model import OffsetLink
from tonne.checkout.link_store import find_link_any_account
from tonne.checkout.model import (
    TEMPORARY_ID_LIFE,
    Checkout,
    CheckoutStatus,
    hash_token,
    is_token,
    temporary_id_of,
)
from tonne.checkout.order_checkout import ordered_offer
from tonne.checkout.pay_checkout import PayCheckout
from tonne.checkout.redirects import with_query
from tonne.checkout.shown_offer import PricedOffer, compare_with_start, read_shown_offer
from tonne.db.pool import Connection, Database
from tonne.gateways.card_simulated import SIMULATED_CARDS
from tonne.http.route import Request, Response, json_response
from tonne.orders.beneficiary import Beneficiary
from tonne.orders.load import load_orders
from tonne.orders.model import Order, OrderKey, OrderStatus
from tonne.retirements.certificate_record import CertificateRecord
from tonne.retirements.certificates import find_certificate, find_withdrawal
from tonne.retirements.endpoints import pdf_answer
from tonne.retirements.render_certificate import render_certificate
from tonne.web.forms import FormGuard
from tonne.web.render import Renderer, see_other

_PAID = (OrderStatus.PAID, OrderStatus.RETIRING, OrderStatus.COMPLETE)
# What visitors see instead of the gateway's message, which is often technical.
_DECLINED = {
    "insufficient_funds": "The card has insufficient funds.",
    "expired_card": "The card has expired.",
    "authentication_required": "The bank asked for a confirmation that wasn't given.",
    "page_expired": "The payment page expired.",
    "page": "The payment page couldn't be opened.",
}


Fields = Mapping[str, Sequence[str]]
NO_FIELDS: Fields = {}


@dataclass(frozen=True, slots=True)
class _CheckoutView:
    """Everything the page shows, read from one snapshot."""

    token: str
    checkout: Checkout
    link: OffsetLink
    order: Order | None
    failure: Decline | None
    is_pending: bool
    # A payment arrived with another amount: the operator decides what becomes of it.
    is_mismatched: bool
    certificate: bytes | None
    # Why that certificate was withdrawn, if it was.
    withdrawn_reason: str | None = None

    @property
    def state(self) -> str:
        """The script reloads the page when this changes."""
        if self.order is not None and self.order.status in _PAID:
            return str(self.order.status)
        if self.is_mismatched:
            return "mismatched"
        if self.order is not None and self.order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
            return "cancelled"
        return "under_way" if self.is_pending else "to_pay"

    @property
    def asks_for_name(self) -> bool:
        return self.checkout.is_without_name and self.link.asks_for_name


class StateOut(msgspec.Struct):
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutPage:
    database: Database
    renderer: Renderer
    guard: FormGuard
    clock: Clock
    payment: PayCheckout
    payment_limit: AttemptLimit
    certificate_limit: AttemptLimit

    async def show(self, request: Request) -> Response:
        view = await self._view(request)
        (returned,) = request.query("paid")
        if returned is not None and view.order is not None and view.is_pending:
            await self.payment.look_up_now(view.order)
        if view.state == "to_pay":
            (changed,) = request.query("changed")
            return await self._show_payment(request, view, was_refused=changed is not None)
        return await self._show_progress(request, view)

    async def pay(self, request: Request) -> Response:
        """In test mode by a test card, in live mode on the gateway's page."""
        fields = self.guard.check(request)
        self.payment_limit.count(request)
        view = await self._view(request)
        shown = read_shown_offer(fields)
        try:
            customer = _customer(view, fields)
            if view.checkout.scope.mode is Mode.TEST:
                number = read_test_card((fields.get("card_number") or [""])[0])
                await self.payment.pay_by_test_card(view.token, shown, number, customer=customer)
                return see_other(f"/checkout/{view.token}")
            url = await self.payment.open_page(view.token, shown, request.limited_as, customer=customer)
        except OfferChanged:
            if view.asks_for_name:
                # A redirect would lose the name.
                return await self._show_payment(request, view, fields=fields, was_refused=True)
            return see_other(f"/checkout/{view.token}?changed=1")
        except (CheckoutNotFound, CheckoutOver, OffsetLinkClosed):
            raise
        except TonneError as fault:
            return await self._show_payment(request, await self._view(request), fault=fault, fields=fields)
        if url is None:
            return see_other(f"/checkout/{view.token}")
        # Not a redirect: `form-action` in the content security policy would block it.
        return self.renderer.page(request, "leaving.html", url=url)

    async def state(self, request: Request) -> Response:
        response = json_response(StateOut((await self._view(request)).state))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def certificate(self, request: Request) -> Response:
        """Available even if the account does not publish its certificates. Limited: rendering a PDF costs CPU time."""
        self.certificate_limit.count(request)
        view = await self._view(request)
        if view.certificate is None:
            raise CheckoutNotFound("There is no certificate yet. Come back when the order is complete.")
        record = msgspec.json.decode(view.certificate, type=CertificateRecord)
        response = pdf_answer(record, await render_certificate(self.database, record, self.clock))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _view(self, request: Request) -> _CheckoutView:
        token = request.path("token")
        if not is_token(token):
            raise CheckoutNotFound
        async with self.database.snapshot() as connection:
            checkout = await store.find_checkout(connection, hash_token(token))
            link = None if checkout is None else await find_link_any_account(connection, checkout.offset_link_id)
            if checkout is None or link is None:
                raise CheckoutNotFound
            order = await _find_order(connection, checkout)
            if order is None:
                return _CheckoutView(
                    token, checkout, link, None, None, is_pending=False, is_mismatched=False, certificate=None
                )
            return _CheckoutView(
                token,
                checkout,
                link,
                order,
                await find_last_decline(connection, order),
                is_pending=await find_pending(connection, order) is not None,
                is_mismatched=any(
                    charge.status is ChargeStatus.MISMATCHED for charge in await find_captured(connection, order)
                ),
                certificate=await find_certificate(connection, order.scope, order.id),
                withdrawn_reason=await find_withdrawal(connection, order.scope, order.id),
            )

    async def _show_payment(
        self,
        request: Request,
        view: _CheckoutView,
        *,
        fault: TonneError | None = None,
        fields: Fields = NO_FIELDS,
        was_refused: bool = False,
    ) -> Response:
        checkout = view.checkout
        is_over = checkout.status is CheckoutStatus.CLOSED or self.clock() >= checkout.expires_at
        if is_over:
            return self.renderer.page(request, "checkout_over.html", status=410, **_frame(view))
        offer: PricedOffer | None = None
        can_pay = self.payment.takes_cards(checkout.scope.mode)
        try:
            if not can_pay:
                raise SellerTakesNoCards
            offer = await self._offer(view)
        except TonneError as unpriced:
            fault = fault or unpriced
        token, headers = self.guard.issue(request)
        failure = view.failure
        return self.renderer.page(
            request,
            "checkout_pay.html",
            status=200 if fault is None else 422,
            headers=headers,
            checkout=checkout,
            priced=None if offer is None else offer.priced,
            tax=None if offer is None else offer.tax,
            offer=None if offer is None else offer.digest.hex(),
            change=None if offer is None else compare_with_start(checkout, offer),
            was_refused=was_refused,
            can_pay=can_pay,
            fault=None if fault is None else fault.faults[0],
            declined=None if failure is None or fault is not None else _explain(failure),
            form_token=token,
            cards=SIMULATED_CARDS,
            beneficiary=await self._beneficiary(view),
            **await self._name_form(view, fields),
            **_frame(view),
        )

    async def _name_form(self, view: _CheckoutView, fields: Fields) -> dict[str, Any]:
        """The values of `_name.html`, if the page asks for the customer's name."""
        if not view.asks_for_name:
            return {"filled": None}
        terms = await self.payment.directory.terms_of(view.checkout.scope)
        name, is_public = _name_fields(fields)
        return {"filled": {"name": name, "is_name_public": is_public}, "account_beneficiary": terms.beneficiary}

    async def _offer(self, view: _CheckoutView) -> PricedOffer:
        """The current offer, or what was ordered."""
        if view.order is not None and view.order.priced is not None:
            order = view.order
            return PricedOffer(view.order.priced, order.tax, ordered_offer(view.checkout, order).digest)
        return await self.payment.price(view.checkout, view.link)

    async def _beneficiary(self, view: _CheckoutView) -> Beneficiary:
        """In whose name the certificate is issued."""
        order = view.order
        if order is not None:
            return Beneficiary(order.beneficiary, order.beneficiary_kind, order.beneficiary_is_public)
        terms = await self.payment.directory.terms_of(view.checkout.scope)
        return view.checkout.beneficiary or Beneficiary(terms.beneficiary)

    async def _show_progress(self, request: Request, view: _CheckoutView) -> Response:
        record = None
        if view.certificate is not None:
            record = msgspec.json.decode(view.certificate, type=CertificateRecord)
        order = view.order
        token, headers = self.guard.issue(request)
        return self.renderer.page(
            request,
            "checkout_progress.html",
            headers=headers,
            form_token=token,
            checkout=view.checkout,
            state=view.state,
            order=order,
            priced=None if order is None else order.priced,
            tax=None if order is None else order.tax,
            offer="" if order is None else ordered_offer(view.checkout, order).digest.hex(),
            certificate=record,
            withdrawn_reason=view.withdrawn_reason,
            beneficiary=await self._beneficiary(view),
            refresh_s=None if view.state in {"complete", "cancelled"} else 5,
            **_frame(view),
        )


def _customer(view: _CheckoutView, fields: Fields) -> Beneficiary | None:
    if not view.asks_for_name:
        return None
    name, is_public = _name_fields(fields)
    return read_customer_name(name, is_public=is_public)


def _name_fields(fields: Fields) -> tuple[str, bool]:
    return (fields.get(NAME_FIELD) or [""])[0], bool(fields.get(PUBLIC_FIELD))


async def _find_order(connection: Connection, checkout: Checkout) -> Order | None:
    if checkout.order_id is None:
        return None
    orders = await load_orders(connection, [OrderKey(checkout.scope.account_id, checkout.order_id)])
    return orders[0] if orders else None


def _frame(view: _CheckoutView) -> dict[str, Any]:
    """The values that all templates of a checkout need."""
    checkout = view.checkout
    back = checkout.redirect_url
    if back is not None and view.state in {str(status) for status in _PAID}:
        name = "external_id" if checkout.is_verified else "unverified_external_id"
        reference = {} if checkout.external_id is None else {name: checkout.external_id}
        back = with_query(back, {"temporary_id": temporary_id_of(view.token), **reference})
    return {
        "test_mode": checkout.scope.mode is Mode.TEST,
        "link": view.link,
        "token": view.token,
        "again": f"/offset/{view.link.id}" if checkout.can_start_again else None,
        "back": back,
        "back_label": checkout.redirect_label or (back or "").partition("://")[2].partition("/")[0],
        "temporary_minutes": int(TEMPORARY_ID_LIFE.total_seconds() // 60),
    }


def _explain(failure: Decline) -> str:
    return _DECLINED.get(failure.code or "", "The bank declined the payment.")
