"""The page of an offset link: a form for the amount and the bundles, with the exact price."""

from dataclasses import dataclass
from typing import Any

from tonne.accounts.directory import AccountDirectory
from tonne.accounts.model import PaymentMethod
from tonne.accounts.redirect_hosts import list_hosts
from tonne.base.clock import Clock
from tonne.base.errors import TonneError
from tonne.base.ids import is_id
from tonne.base.mass import format_tonnes
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.catalog.price import PriceRequest
from tonne.catalog.pricing import Priced
from tonne.catalog.snapshot import Catalogues
from tonne.checkout import store as checkout_store
from tonne.checkout.attempt_limit import AttemptLimit
from tonne.checkout.begin_checkout import Visitor, begin_checkout, read_email, read_external_id
from tonne.checkout.errors import AlreadyPaid, OffsetLinkClosed, RedirectRefused, SellerTakesNoCards
from tonne.checkout.link_model import OffsetLink
from tonne.checkout.link_store import find_link_any_account
from tonne.checkout.offer import LinkOffer, Offered, choose, parse_quantity, parse_value, price_offer
from tonne.checkout.redirects import check_redirect
from tonne.checkout.shown_offer import PricedOffer
from tonne.db.pool import Database
from tonne.gateways.card_gateways import takes_cards
from tonne.http.route import Request, Response
from tonne.web.forms import FormGuard
from tonne.web.render import Renderer, see_other
from tonne.web.visitor import decimal_sign, locale_of

BY_QUANTITY, BY_VALUE = "quantity", "value"
_MAX_LABEL = 100


@dataclass(frozen=True, slots=True)
class OffsetForm:
    """The form fields as the visitor entered them."""

    by: str
    amount: str
    bundle_ids: tuple[str, ...]
    email: str
    external_id: str
    redirect_url: str
    redirect_label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPage:
    database: Database
    catalogues: Catalogues
    directory: AccountDirectory
    renderer: Renderer
    guard: FormGuard
    clock: Clock
    settings: Settings
    begin_limit: AttemptLimit

    async def show(self, request: Request) -> Response:
        """The form, prefilled from the query, with the price if the amount is known."""
        try:
            offer = await self._load_offer(request)
        except SellerTakesNoCards:
            return self.renderer.page(
                request, "offset_closed.html", status=503, seller_email=self.settings.seller_email
            )
        filled = _from_query(request, offer)
        redirect_url, _ = await self._redirect(offer.link, filled)
        external_id = read_external_id(filled.external_id)
        if external_id is not None:
            async with self.database.connection() as connection:
                if await checkout_store.is_paid(connection, offer.link.scope, offer.link.id, external_id):
                    raise AlreadyPaid("This payment was already made. You don't need to pay again.")
        priced, fault = _try_to_price(offer, filled)
        return self._form(request, offer, filled, priced=priced, fault=fault, back=redirect_url)

    async def price(self, request: Request) -> Response:
        """The price as an HTML fragment, for the script that updates it."""
        offer = await self._load_offer(request)
        priced, fault = _try_to_price(offer, _from_query(request, offer))
        return self.renderer.page(request, "_price.html", priced=priced, missing=fault)

    async def begin(self, request: Request) -> Response:
        fields = self.guard.check(request)
        self.begin_limit.count(request)
        offer = await self._load_offer(request)
        filled = _from_form(fields, _preset(request, offer) if not offer.link.amount_editable else None)
        priced: PricedOffer | None = None
        try:
            redirect_url, label = await self._redirect(offer.link, filled)
            wanted, priced = _price(offer, filled)
            visitor = Visitor(
                email=read_email(filled.email),
                external_id=read_external_id(filled.external_id),
                redirect_url=redirect_url,
                redirect_label=label,
            )
            async with self.database.transaction() as tx:
                token = await begin_checkout(tx, offer.link, wanted, priced, visitor=visitor, now=self.clock())
        except TonneError as fault:
            return self._form(
                request, offer, filled, priced=None if priced is None else priced.priced, fault=fault, status=422
            )
        return see_other(f"/checkout/{token}")

    async def _load_offer(self, request: Request) -> LinkOffer:
        link_id = request.path("link_id")
        async with self.database.connection() as connection:
            link = await find_link_any_account(connection, link_id) if is_id("lnk", link_id) else None
        if link is None or not link.is_open(self.clock()):
            raise OffsetLinkClosed
        if not takes_cards(self.settings, link.scope.mode):
            raise SellerTakesNoCards
        terms = (await self.directory.terms_of(link.scope)).paid_by(PaymentMethod.CARD)
        catalogue = await self.catalogues.current(link.scope.mode)
        return LinkOffer(link, terms, catalogue)

    async def _redirect(self, link: OffsetLink, filled: OffsetForm) -> tuple[str | None, str | None]:
        """Target and label of the button after the payment. Validated every time, because hosts can be forbidden.

        An invalid URL in the query is an error. If the link's own URL is no longer allowed, there is no button.
        """
        async with self.database.connection() as connection:
            hosts = await list_hosts(connection, link.scope.organisation_id)
        if filled.redirect_url:
            label = filled.redirect_label.strip()[:_MAX_LABEL]
            return check_redirect(filled.redirect_url, hosts, link.scope.mode), label or None
        try:
            return check_redirect(link.redirect_url or "", hosts, link.scope.mode), link.redirect_label
        except RedirectRefused:
            return None, None

    def _form(
        self,
        request: Request,
        offer: LinkOffer,
        filled: OffsetForm,
        *,
        priced: Priced | None,
        fault: TonneError | None,
        back: str | None = None,
        status: int = 200,
    ) -> Response:
        token, headers = self.guard.issue(request)
        first = None if fault is None else fault.faults[0]
        return self.renderer.page(
            request,
            "offset.html",
            status=status,
            headers=headers,
            test_mode=offer.link.scope.mode is Mode.TEST,
            link=offer.link,
            filled=filled,
            currency=offer.terms.currency,
            bundles=[_bundle(each, filled) for each in offer.bundles],
            form_token=token,
            fault=first,
            back=back,
            priced=priced,
            missing=fault,
        )


def _bundle(each: Offered, filled: OffsetForm) -> dict[str, Any]:
    return {
        "id": each.bundle.id,
        "name": each.bundle.name,
        "description": each.bundle.description,
        "is_available": each.is_available,
        "is_chosen": each.is_available and (not filled.bundle_ids or each.bundle.id in filled.bundle_ids),
    }


def _price(offer: LinkOffer, filled: OffsetForm) -> tuple[PriceRequest, PricedOffer]:
    choices = choose(offer.bundles, filled.bundle_ids)
    link = offer.link
    if not link.amount_editable:
        wanted = PriceRequest(
            mass_grams=link.preset_quantity_grams, value_minor=link.preset_value_minor, choices=choices
        )
    elif filled.by == BY_VALUE:
        wanted = PriceRequest(value_minor=parse_value(filled.amount, offer.terms.currency), choices=choices)
    else:
        wanted = PriceRequest(mass_grams=parse_quantity(filled.amount), choices=choices)
    return wanted, price_offer(offer, wanted)


def _try_to_price(offer: LinkOffer, filled: OffsetForm) -> tuple[Priced | None, TonneError | None]:
    if not filled.amount:
        return None, None
    try:
        return _price(offer, filled)[1].priced, None
    except TonneError as fault:
        return None, fault


def _from_query(request: Request, offer: LinkOffer) -> OffsetForm:
    quantity, value, by, amount, email, external_id, redirect_url, redirect_label = request.query(
        "quantity", "value", "by", "amount", "email", "external_id", "redirect_url", "redirect_label"
    )
    if not offer.link.amount_editable or (by is None and not quantity and not value):
        by, amount = _preset(request, offer)
    elif by is None:
        by, amount = (BY_QUANTITY, quantity) if quantity else (BY_VALUE, value)
    return OffsetForm(
        by=BY_VALUE if by == BY_VALUE else BY_QUANTITY,
        amount=(amount or "")[:40],
        bundle_ids=tuple(dict.fromkeys(request.query_values("bundle_id"))),
        email=(email or "")[:254],
        external_id=external_id or "",
        redirect_url=redirect_url or "",
        redirect_label=redirect_label or "",
    )


def _from_form(fields: dict[str, list[str]], fixed: tuple[str, str] | None) -> OffsetForm:
    def one(name: str) -> str:
        return (fields.get(name) or [""])[0]

    by, amount = fixed or (one("by"), one("amount"))
    return OffsetForm(
        by=BY_VALUE if by == BY_VALUE else BY_QUANTITY,
        amount=amount[:40],
        # An empty id is not on offer, so a form without a selected bundle is rejected.
        bundle_ids=tuple(dict.fromkeys(fields.get("bundle_id", []))) or ("",),
        email=one("email"),
        external_id=one("external_id"),
        redirect_url=one("redirect_url"),
        redirect_label=one("redirect_label"),
    )


def _preset(request: Request, offer: LinkOffer) -> tuple[str, str]:
    """The preset of the link, with the visitor's decimal separator."""
    sign = decimal_sign(locale_of(request.headers.get(b"accept-language", b"").decode("latin-1")))
    link = offer.link
    if link.preset_value_minor is not None:
        return BY_VALUE, format_money(link.preset_value_minor, offer.terms.currency).replace(".", sign)
    if link.preset_quantity_grams is not None:
        return BY_QUANTITY, format_tonnes(link.preset_quantity_grams).replace(".", sign)
    return BY_QUANTITY, ""
