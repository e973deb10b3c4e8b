"""The form of an offset link: prefilled from the query, then as the visitor sends it; and the bundles that it shows."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from babel import Locale
from msgspec import Struct

from tonne.channels.checkout.create_checkout import NAME_FIELD, PUBLIC_FIELD, collected
from tonne.channels.checkout.links.amounts import AmountUnit, Bought, unit_of
from tonne.channels.checkout.links.model import Redirect, read_redirect
from tonne.channels.checkout.links.offer import (
    LinkOffer,
    Offered,
    PricedOffer,
    choose,
    parse_kilograms,
    parse_quantity,
    parse_value,
    price_offer,
)
from tonne.channels.checkout.links.signed_query import NAME_PARAMETER, SignedQuery
from tonne.channels.checkout.model import Checkout
from tonne.channels.public_pages.model import project_path
from tonne.platform.http.route import Request
from tonne.platform.values.amounts import GRAMS_PER_TONNE, format_money, format_tonnes
from tonne.platform.values.context import replace
from tonne.platform.values.errors import TonneError
from tonne.platform.web import visitor
from tonne.selling.catalogue.errors import ChargeTooSmall
from tonne.selling.catalogue.pictures.pictures import bundle_picture
from tonne.selling.catalogue.prices.price import PriceRequest, price_for_display, tax_minor_on
from tonne.selling.catalogue.selection import BundleChoiceIn
from tonne.selling.orders.model import BeneficiaryKind


class BundleCard(Struct, frozen=True):
    """`unit_price_minor` is what a customer pays for a tonne, fee and tax included. None while there is no price.

    `share` is the bundle's part of a mix.
    """

    id: str
    name: str
    description: str
    mechanism: str
    picture: str
    unit_price_minor: int | None
    share: Fraction | None
    is_available: bool
    is_chosen: bool
    projects: list[tuple[str, str]]


def bundle_cards(offer: LinkOffer, chosen: Sequence[str]) -> list[BundleCard]:
    is_mix = _is_mix(offer.bundles)
    return [
        BundleCard(
            id=each.bundle.id,
            name=each.bundle.name,
            description=each.bundle.description,
            mechanism=each.bundle.mechanism,
            picture=bundle_picture(each.bundle),
            unit_price_minor=unit_price(offer, [BundleChoiceIn(each.bundle.id)]),
            share=Fraction(each.choice.percentage) / 100 if is_mix and each.choice.percentage is not None else None,
            is_available=each.is_available,
            is_chosen=each.is_available and each.bundle.id in chosen,
            projects=[
                (share.project.name, project_path(offer.link.scope.mode, share.project.slug))
                for share in each.bundle.projects
            ],
        )
        for each in offer.bundles
    ]


def selected_at_first(offered: Sequence[Offered]) -> tuple[str, ...]:
    """A mix with percentages as a whole: somebody has composed it. Of a list without them, the first available."""
    available = [each.bundle.id for each in offered if each.is_available]
    return tuple(available if _is_mix(offered) else available[:1])


def unit_price(offer: LinkOffer, choices: list[BundleChoiceIn]) -> int | None:
    """What a customer pays for a tonne, fee and tax included. None while there is no price."""
    bought = buy_for_display(offer, PriceRequest(mass_grams=GRAMS_PER_TONNE, choices=choices))
    return None if bought is None else bought.due_minor


def buy_for_display(offer: LinkOffer, requested: PriceRequest) -> Bought | None:
    """Also outside the limits of the link. None while there is no price, or a bundle is off sale."""
    try:
        priced = price_for_display(requested, offer.terms, offer.catalogue)
    except TonneError:
        return None
    if priced is None:
        return None
    due_minor = priced.total_cost_minor + (tax_minor_on(priced.total_cost_minor, offer.terms) or 0)
    return Bought(priced.quantity_grams, due_minor, priced.currency)


def _is_mix(offered: Sequence[Offered]) -> bool:
    return any(each.choice.percentage is not None for each in offered)


_MAX_AMOUNT = 40
# The query parameter of a button that fills in an amount: `quantity:1.5`.
SUGGESTED = "suggested"


class OfferedMinimum(Struct, frozen=True):
    """The smallest amount that a card can pay, as a button shows it, and what the button fills in."""

    suggested: str
    amount: str
    mass: str


def smallest_payment(faults: Sequence[TonneError], locale: Locale) -> OfferedMinimum | None:
    """None unless the amount is too small for a card."""
    found = next((fault.smallest for fault in faults if isinstance(fault, ChargeTooSmall)), None)
    if found is None:
        return None
    return OfferedMinimum(
        f"{AmountUnit.VALUE}:{format_money(found.amount_minor, found.currency)}",
        visitor.money(found.amount_minor, found.currency, locale),
        visitor.rounded(found.quantity_grams, locale),
    )


class OffsetForm(Struct, frozen=True):
    """The fields as the visitor entered them. Values of `signed` replace those that a visitor can edit.

    `shown_by` and `shown_amount` are unit and amount of the form that the visitor saw.
    """

    by: AmountUnit
    amount: str
    bundle_ids: tuple[str, ...]
    email: str
    external_id: str
    reference: str
    redirect: Redirect
    name: str = ""
    is_name_public: bool = False
    shown_by: str = ""
    shown_amount: str = ""
    signed: SignedQuery | None = None

    @property
    def external_id_verified(self) -> bool:
        """Whether the external id comes from the client."""
        return self.signed is not None and "external_id" in self.signed.values

    @property
    def has_signed_amount(self) -> bool:
        return self.signed is not None and self.signed.has_amount

    def has_signed(self, name: str) -> bool:
        return self.signed is not None and name in self.signed.values

    @property
    def is_switched(self) -> bool:
        """Whether only the unit was changed: 1.5 t must not become 1.50 EUR."""
        is_other = self.shown_by in set(AmountUnit) and self.shown_by != self.by
        return is_other and bool(self.amount) and self.amount == self.shown_amount and not self.has_signed_amount


def from_query(request: Request, offer: LinkOffer, signed: SignedQuery | None, sign: str) -> OffsetForm:
    """`sign` is the visitor's decimal separator."""
    quantity, value, by, amount = request.query("quantity", "value", "by", "amount")
    email, external_id, reference = request.query("email", "external_id", "reference")
    suggested, shown_by, shown_amount = request.query(SUGGESTED, "shown_by", "shown_amount")
    unit, is_sent = unit_of(by), shown_by is not None
    if not offer.link.amount_editable or (by is None and not quantity and not value):
        unit, amount = preset_of(offer, sign)
    elif suggested:
        named, _, amount = suggested.partition(":")
        unit, amount, shown_by = unit_of(named), amount.replace(".", sign), None
    elif by is None:
        unit, amount = (AmountUnit.TONNES, quantity) if quantity else (AmountUnit.VALUE, value)
    chosen = tuple(dict.fromkeys(request.query_values("bundle_id")))
    # A form that was sent without a selected bundle has none; a link that names none has the default.
    chosen = chosen or (("",) if is_sent else selected_at_first(offer.bundles))
    form = OffsetForm(
        by=unit,
        amount=(amount or "")[:_MAX_AMOUNT],
        bundle_ids=chosen,
        email=(email or "")[:254],
        external_id=external_id or "",
        reference=reference or "",
        redirect=read_redirect(lambda name: request.query(name)[0] or None),
        name=_prefilled_name(request, signed)[:200],
        is_name_public=bool(request.query_values(PUBLIC_FIELD)),
        shown_by=shown_by or "",
        shown_amount=shown_amount or "",
    )
    return _with_signed(form, signed)


def _prefilled_name(request: Request, signed: SignedQuery | None) -> str:
    """What the visitor has entered, else the name in a signed query. Either way the visitor may change it."""
    (entered,) = request.query(NAME_FIELD)
    if entered is None and signed is not None:
        entered = signed.get(NAME_PARAMETER)
    return entered or ""


def from_fields(
    fields: Mapping[str, Sequence[str]], fixed: tuple[AmountUnit, str] | None, signed: SignedQuery | None
) -> OffsetForm:
    """`fixed` is the amount of a link whose amount cannot be edited."""

    def one(name: str) -> str:
        return (fields.get(name) or [""])[0]

    unit, amount = fixed or (unit_of(one("by")), one("amount"))
    form = OffsetForm(
        by=unit,
        amount=amount[:_MAX_AMOUNT],
        # An empty id is not on offer, so a form without a selected bundle is rejected.
        bundle_ids=tuple(dict.fromkeys(fields.get("bundle_id", []))) or ("",),
        email=one("email"),
        external_id=one("external_id"),
        reference=one("reference"),
        redirect=read_redirect(lambda name: one(name) or None),
        name=one(NAME_FIELD),
        is_name_public=bool(one(PUBLIC_FIELD)),
        shown_by=one("shown_by"),
        shown_amount=one("shown_amount"),
    )
    return _with_signed(form, signed)


def from_checkout(checkout: Checkout, sign: str) -> OffsetForm:
    """What a visitor entered who now wants to change it."""
    minor, grams = checkout.requested_value_minor, checkout.requested_quantity_grams
    amount = format_tonnes(grams or 0) if minor is None else format_money(minor, checkout.currency)
    customer = checkout.beneficiary
    is_person = customer is not None and customer.kind is BeneficiaryKind.PERSON
    return OffsetForm(
        by=AmountUnit.TONNES if minor is None else AmountUnit.VALUE,
        amount=amount.replace(".", sign),
        bundle_ids=tuple(choice["bundle_id"] for choice in checkout.bundle_selection),
        email=checkout.email,
        external_id=checkout.external_id or "",
        reference=checkout.reference or "",
        redirect=checkout.redirect,
        name=customer.name if customer is not None and is_person else "",
        is_name_public=customer is not None and is_person and customer.is_public,
    )


def _with_signed(form: OffsetForm, signed: SignedQuery | None) -> OffsetForm:
    if signed is None:
        return form
    names = ("email", "external_id", "reference")
    texts: dict[str, Any] = {name: signed.get(name) or "" for name in names if name in signed.values}
    redirect = {**form.redirect.named(), **{name: found[0] or None for name, found in signed.values.items()}}
    form = replace(form, signed=signed, redirect=read_redirect(redirect.get), **texts)
    if "bundle_id" in signed.values:
        form = replace(form, bundle_ids=tuple(dict.fromkeys(signed.values["bundle_id"])))
    if signed.has_amount:
        by = AmountUnit.TONNES if "quantity" in signed.values else AmountUnit.VALUE
        form = replace(form, by=by, amount=signed.get(by) or "")
    return form


def preset_of(offer: LinkOffer, sign: str) -> tuple[AmountUnit, str]:
    """The preset of the link, with the visitor's decimal separator."""
    link = offer.link
    if link.preset_value_minor is not None:
        return AmountUnit.VALUE, format_money(link.preset_value_minor, offer.terms.currency).replace(".", sign)
    if link.preset_quantity_grams is not None:
        return AmountUnit.TONNES, format_tonnes(link.preset_quantity_grams).replace(".", sign)
    return AmountUnit.TONNES, ""


class FormPrice(Struct, frozen=True):
    """`requested` and `offer` are None if there are faults, or if there is no amount yet."""

    requested: PriceRequest | None
    offer: PricedOffer | None
    faults: tuple[TonneError, ...]


def price_form(offer: LinkOffer, filled: OffsetForm) -> FormPrice:
    """Finds the faults of the amount and of the bundles, not only the first."""
    faults: list[TonneError] = []
    choices: list[BundleChoiceIn] | None = None
    requested: PriceRequest | None = None
    with collected(faults):
        choices = choose(offer.bundles, filled.bundle_ids)
    with collected(faults):
        requested = _read_amount(offer, filled, choices)
    if faults or requested is None:
        return FormPrice(None, None, tuple(faults))
    try:
        return FormPrice(requested, price_offer(offer, requested), ())
    except TonneError as fault:
        return FormPrice(None, None, (fault,))


def try_to_price(offer: LinkOffer, filled: OffsetForm) -> FormPrice:
    """Without an amount there is no price, and no fault yet."""
    return price_form(offer, filled) if filled.amount else FormPrice(None, None, ())


def convert(offer: LinkOffer, filled: OffsetForm, sign: str) -> OffsetForm:
    """The same amount in the unit that the visitor has switched to. Empty if there is no price."""
    before = replace(filled, by=unit_of(filled.shown_by))
    try:
        requested = _read_amount(offer, before, choose(offer.bundles, filled.bundle_ids))
    except TonneError:
        return replace(filled, amount="")
    bought = buy_for_display(offer, requested)
    return replace(filled, amount="" if bought is None else bought.amount_in(filled.by).replace(".", sign))


def _read_amount(offer: LinkOffer, filled: OffsetForm, choices: list[BundleChoiceIn] | None) -> PriceRequest:
    link = offer.link
    if not link.amount_editable and not filled.has_signed_amount:
        return PriceRequest(mass_grams=link.preset_quantity_grams, value_minor=link.preset_value_minor, choices=choices)
    match filled.by:
        case AmountUnit.VALUE:
            return PriceRequest(value_minor=parse_value(filled.amount, offer.terms.currency), choices=choices)
        case AmountUnit.KILOGRAMS:
            return PriceRequest(mass_grams=parse_kilograms(filled.amount), choices=choices)
        case AmountUnit.TONNES:
            return PriceRequest(mass_grams=parse_quantity(filled.amount), choices=choices)
