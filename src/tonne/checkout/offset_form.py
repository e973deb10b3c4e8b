"""The form of an offset link: prefilled from the query, then as the visitor sends it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tonne.base.errors import TonneError
from tonne.base.mass import format_tonnes
from tonne.base.money import format_money
from tonne.catalog.price import PriceRequest
from tonne.checkout.begin_checkout import NAME_FIELD, PUBLIC_FIELD
from tonne.checkout.offer import LinkOffer, choose, parse_quantity, parse_value, price_offer
from tonne.checkout.shown_offer import PricedOffer
from tonne.checkout.signed_query import NAME_PARAMETER, SignedQuery
from tonne.http.route import Request
from tonne.web.visitor import decimal_sign, locale_of

BY_QUANTITY, BY_VALUE = "quantity", "value"


@dataclass(frozen=True, slots=True)
class OffsetForm:
    """The fields as the visitor entered them. Values of `signed` replace those that a visitor can edit."""

    by: str
    amount: str
    bundle_ids: tuple[str, ...]
    email: str
    external_id: str
    redirect_url: str
    redirect_label: str
    name: str = ""
    is_name_public: bool = False
    signed: SignedQuery | None = None

    @property
    def is_verified(self) -> bool:
        """Whether the external id comes from the client."""
        return self.signed is not None and "external_id" in self.signed.values

    @property
    def has_signed_amount(self) -> bool:
        return self.signed is not None and self.signed.has_amount

    def has_signed(self, name: str) -> bool:
        return self.signed is not None and name in self.signed.values


def from_query(request: Request, offer: LinkOffer, signed: SignedQuery | None) -> OffsetForm:
    quantity, value, by, amount, email, external_id, redirect_url, redirect_label = request.query(
        "quantity", "value", "by", "amount", "email", "external_id", "redirect_url", "redirect_label"
    )
    if not offer.link.amount_editable or (by is None and not quantity and not value):
        by, amount = preset_of(request, offer)
    elif by is None:
        by, amount = (BY_QUANTITY, quantity) if quantity else (BY_VALUE, value)
    form = OffsetForm(
        by=BY_VALUE if by == BY_VALUE else BY_QUANTITY,
        amount=(amount or "")[:40],
        bundle_ids=tuple(dict.fromkeys(request.query_values("bundle_id"))),
        email=(email or "")[:254],
        external_id=external_id or "",
        redirect_url=redirect_url or "",
        redirect_label=redirect_label or "",
        name=_prefilled_name(request, signed)[:200],
        is_name_public=bool(request.query_values(PUBLIC_FIELD)),
    )
    return _with_signed(form, signed)


def _prefilled_name(request: Request, signed: SignedQuery | None) -> str:
    """What the visitor has entered, else the name in a signed query. Either way the visitor may change it."""
    (entered,) = request.query(NAME_FIELD)
    if entered is None and signed is not None:
        entered = signed.get(NAME_PARAMETER)
    return entered or ""


def from_fields(
    fields: Mapping[str, Sequence[str]], fixed: tuple[str, str] | None, signed: SignedQuery | None
) -> OffsetForm:
    """`fixed` is the amount of a link whose amount cannot be edited."""

    def one(name: str) -> str:
        return (fields.get(name) or [""])[0]

    by, amount = fixed or (one("by"), one("amount"))
    form = OffsetForm(
        by=BY_VALUE if by == BY_VALUE else BY_QUANTITY,
        amount=amount[:40],
        # An empty id is not on offer, so a form without a selected bundle is rejected.
        bundle_ids=tuple(dict.fromkeys(fields.get("bundle_id", []))) or ("",),
        email=one("email"),
        external_id=one("external_id"),
        redirect_url=one("redirect_url"),
        redirect_label=one("redirect_label"),
        name=one(NAME_FIELD),
        is_name_public=bool(one(PUBLIC_FIELD)),
    )
    return _with_signed(form, signed)


def _with_signed(form: OffsetForm, signed: SignedQuery | None) -> OffsetForm:
    if signed is None:
        return form
    texts: dict[str, Any] = {
        name: signed.get(name) or ""
        for name in ("email", "external_id", "redirect_url", "redirect_label")
        if name in signed.values
    }
    form = replace(form, signed=signed, **texts)
    if "bundle_id" in signed.values:
        form = replace(form, bundle_ids=tuple(dict.fromkeys(signed.values["bundle_id"])))
    if signed.has_amount:
        by = BY_QUANTITY if "quantity" in signed.values else BY_VALUE
        form = replace(form, by=by, amount=signed.get(by) or "")
    return form


def preset_of(request: Request, offer: LinkOffer) -> tuple[str, str]:
    """The preset of the link, with the visitor's decimal separator."""
    sign = decimal_sign(locale_of(request.headers.get(b"accept-language", b"").decode("latin-1")))
    link = offer.link
    if link.preset_value_minor is not None:
        return BY_VALUE, format_money(link.preset_value_minor, offer.terms.currency).replace(".", sign)
    if link.preset_quantity_grams is not None:
        return BY_QUANTITY, format_tonnes(link.preset_quantity_grams).replace(".", sign)
    return BY_QUANTITY, ""


def price_form(offer: LinkOffer, filled: OffsetForm) -> tuple[PriceRequest, PricedOffer]:
    choices = choose(offer.bundles, filled.bundle_ids)
    link = offer.link
    if not link.amount_editable and not filled.has_signed_amount:
        wanted = PriceRequest(
            mass_grams=link.preset_quantity_grams, value_minor=link.preset_value_minor, choices=choices
        )
    elif filled.by == BY_VALUE:
        wanted = PriceRequest(value_minor=parse_value(filled.amount, offer.terms.currency), choices=choices)
    else:
        wanted = PriceRequest(mass_grams=parse_quantity(filled.amount), choices=choices)
    return wanted, price_offer(offer, wanted)


def try_to_price(offer: LinkOffer, filled: OffsetForm) -> tuple[PricedOffer | None, TonneError | None]:
    if not filled.amount:
        return None, None
    try:
        return price_form(offer, filled)[1], None
    except TonneError as fault:
        return None, fault
