"""The checkout: what is bought, the payment, and the way of the order to its certificate."""

from dataclasses import dataclass
from typing import Any

import msgspec

from tonne.base.clock import Clock
from tonne.base.errors import TonneError
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.cards.charge_store import Decline, find_last_decline, find_pending
from tonne.catalog.pricing import Priced
from tonne.checkout import store
from tonne.checkout.errors import CheckoutNotFound, CheckoutOver, OffsetLinkClosed, PriceChanged
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
from tonne.checkout.offset_page import require_turn
from tonne.checkout.pay_checkout import PayCheckout, read_test_card
from tonne.checkout.redirects import with_query
from tonne.db.pool import Connection, Database
from tonne.gateways.card_simulated import SIMULATED_CARDS
from tonne.http.rate_limit import TokenBuckets
from tonne.http.route import Request, Response, json_response
from tonne.orders.load import load_orders
from tonne.orders.model import Order, OrderKey, OrderStatus
from tonne.retirements.certificate_record import CertificateRecord
from tonne.retirements.certificates import find_certificate
from tonne.retirements.draw_certificate import draw_certificate
from tonne.retirements.endpoints import pdf_answer
from tonne.web.forms import FormGuard
from tonne.web.render import Renderer, see_other

_PAID = (OrderStatus.PAID, OrderStatus.RETIRING, OrderStatus.COMPLETE)
# What a person sees of a card's failure; the bank's own words are not always fit for them.
_DECLINED = {
    "insufficient_funds": "There is not enough money on the card.",
    "expired_card": "The card has expired.",
    "authentication_required": "The bank wants the payment to be confirmed, which did not happen.",
    "page_expired": "The payment page was open for too long.",
    "page": "The payment page could not be opened.",
}


@dataclass(frozen=True, slots=True)
class _Scene:
    """All that the page is made of, as it stood at one moment."""

    token: str
    checkout: Checkout
    link: OffsetLink
    order: Order | None
    failure: Decline | None
    is_under_way: bool
    certificate: bytes | None

    @property
    def state(self) -> str:
        """A word that changes when the page does."""
        if self.order is not None and self.order.status in _PAID:
            return str(self.order.status)
        if self.order is not None and self.order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
            return "cancelled"
        return "under_way" if self.is_under_way else "to_pay"


class StateOut(msgspec.Struct):
    state: str


class CheckoutPage:
    def __init__(
        self,
        database: Database,
        pay: PayCheckout,
        *,
        renderer: Renderer,
        guard: FormGuard,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._database = database
        self._pay = pay
        self._renderer = renderer
        self._guard = guard
        self._clock = clock
        self._payments = TokenBuckets(settings.checkouts_per_minute / 60, settings.checkouts_burst)

    async def show(self, request: Request) -> Response:
        scene = await self._scene(request)
        (returned,) = request.query("paid")
        if returned is not None and scene.order is not None and scene.is_under_way:
            await self._pay.look_now(scene.order)
        if scene.state == "to_pay":
            return await self._show_payment(request, scene)
        return self._show_progress(request, scene)

    async def pay(self, request: Request) -> Response:
        """By a test card, or on the gateway's page."""
        fields = self._guard.check(request)
        require_turn(self._payments, request)
        scene = await self._scene(request)
        shown_total = (fields.get("total") or [""])[0]
        total = int(shown_total) if shown_total.isascii() and shown_total.isdigit() and len(shown_total) < 20 else -1
        try:
            if scene.checkout.scope.mode is Mode.TEST:
                number = read_test_card((fields.get("card_number") or [""])[0])
                await self._pay.pay_by_test_card(scene.token, total, number)
                return see_other(f"/checkout/{scene.token}")
            url = await self._pay.open_page(scene.token, total)
        except PriceChanged:
            return see_other(f"/checkout/{scene.token}")
        except (CheckoutNotFound, CheckoutOver, OffsetLinkClosed):
            raise
        except TonneError as fault:
            return await self._show_payment(request, await self._scene(request), fault)
        if url is None:
            return see_other(f"/checkout/{scene.token}")
        # Not a redirect: browsers let a form lead only where the page's policy says, and that is here.
        return self._renderer.page(request, "leaving.html", url=url)

    async def state(self, request: Request) -> Response:
        response = json_response(StateOut((await self._scene(request)).state))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def certificate(self, request: Request) -> Response:
        """For whoever has the checkout's address, whatever the account's public page shows."""
        scene = await self._scene(request)
        if scene.certificate is None:
            raise CheckoutNotFound("There is no certificate yet: it comes when the order is complete.")
        record = msgspec.json.decode(scene.certificate, type=CertificateRecord)
        response = pdf_answer(record, await draw_certificate(self._database, record, self._clock))
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _scene(self, request: Request) -> _Scene:
        token = request.path("token")
        if not is_token(token):
            raise CheckoutNotFound
        async with self._database.snapshot() as connection:
            checkout = await store.find_checkout(connection, hash_token(token))
            link = None if checkout is None else await find_link_any_account(connection, checkout.offset_link_id)
            if checkout is None or link is None:
                raise CheckoutNotFound
            order = await _order_of(connection, checkout)
            if order is None:
                return _Scene(token, checkout, link, None, None, is_under_way=False, certificate=None)
            return _Scene(
                token,
                checkout,
                link,
                order,
                await find_last_decline(connection, order),
                is_under_way=await find_pending(connection, order) is not None,
                certificate=await find_certificate(connection, order.scope, order.id),
            )

    async def _show_payment(self, request: Request, scene: _Scene, fault: TonneError | None = None) -> Response:
        checkout = scene.checkout
        is_over = checkout.status is CheckoutStatus.CLOSED or self._clock() >= checkout.expires_at
        if is_over:
            again = f"/offset/{checkout.offset_link_id}"
            return self._renderer.page(request, "checkout_over.html", status=410, again=again, **_frame(scene))
        priced: Priced | None = None
        try:
            priced = await self._price(scene)
        except TonneError as unpriced:
            fault = fault or unpriced
        token, headers = self._guard.issue(request)
        failure = scene.failure
        return self._renderer.page(
            request,
            "checkout_pay.html",
            status=200 if fault is None else 422,
            headers=headers,
            checkout=checkout,
            priced=priced,
            price_was=checkout.total_cost_minor,
            fault=None if fault is None else fault.faults[0],
            declined=None if failure is None or fault is not None else _words(failure),
            form_token=token,
            cards=SIMULATED_CARDS,
            **_frame(scene),
        )

    async def _price(self, scene: _Scene) -> Priced:
        """What is charged when the person pays now: once there is an order its price is fixed."""
        if scene.order is not None and scene.order.priced is not None:
            return scene.order.priced
        return await self._pay.price(scene.checkout, scene.link)

    def _show_progress(self, request: Request, scene: _Scene) -> Response:
        record = None
        if scene.certificate is not None:
            record = msgspec.json.decode(scene.certificate, type=CertificateRecord)
        order = scene.order
        token, headers = self._guard.issue(request)
        return self._renderer.page(
            request,
            "checkout_progress.html",
            headers=headers,
            form_token=token,
            checkout=scene.checkout,
            state=scene.state,
            order=order,
            priced=None if order is None else order.priced,
            certificate=record,
            refresh_s=None if scene.state in {"complete", "cancelled"} else 5,
            **_frame(scene),
        )


async def _order_of(connection: Connection, checkout: Checkout) -> Order | None:
    if checkout.order_id is None:
        return None
    orders = await load_orders(connection, [OrderKey(checkout.scope.account_id, checkout.order_id)])
    return orders[0] if orders else None


def _frame(scene: _Scene) -> dict[str, Any]:
    """Title, way back and mode: what every page of a checkout has."""
    checkout = scene.checkout
    back = checkout.redirect_url
    if back is not None and scene.state in {str(status) for status in _PAID}:
        reference = {} if checkout.external_id is None else {"external_id": checkout.external_id}
        back = with_query(back, {"temporary_id": temporary_id_of(scene.token), **reference})
    return {
        "test_mode": checkout.scope.mode is Mode.TEST,
        "link": scene.link,
        "token": scene.token,
        "back": back,
        "back_label": checkout.redirect_label or (back or "").partition("://")[2].partition("/")[0],
        "temporary_minutes": int(TEMPORARY_ID_LIFE.total_seconds() // 60),
    }


def _words(failure: Decline) -> str:
    return _DECLINED.get(failure.code or "", "The bank has declined it.")
