"""What a link offers, and the price of a visitor's choice.

Nothing is charged that a person did not see: a changed price, quantity, fee, line or project is shown first.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec
from msgspec import Struct

from tonne.channels.checkout.errors import AmountInvalid, AmountOutOfBounds, BundleNotOffered, BundleSoldOut
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.model import Checkout
from tonne.platform.values.amounts import DECIMALS, MAX_GRAMS, MassUnit, parse_typed, scaled, to_grams
from tonne.platform.values.language import N_
from tonne.platform.values.message_values import MassValue, MoneyValue, NamesValue
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue import errors
from tonne.selling.catalogue.model import Bundle, Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest, price
from tonne.selling.catalogue.prices.pricing import Priced, find_short_at_checkout
from tonne.selling.catalogue.selection import BundleChoiceIn
from tonne.selling.orders.model import OrderTax, tax_of
from tonne.selling.orders.quotes.offer_digest import digest_offer

_MAX_TOTAL_DIGITS = 19


class ShownOffer(Struct, frozen=True):
    """As a payment form repeats it. `digest` covers everything that `digest_offer` names."""

    total_minor: int
    digest: bytes


class PricedOffer(Struct, frozen=True):
    """`tax` always has an amount: checkouts are paid at once."""

    priced: Priced
    tax: OrderTax
    digest: bytes

    @property
    def tax_minor(self) -> int:
        return self.tax.tax_minor or 0

    @property
    def amount_due_minor(self) -> int:
        return self.priced.total_cost_minor + self.tax_minor

    @property
    def shown(self) -> ShownOffer:
        return ShownOffer(self.amount_due_minor, self.digest)


class OfferChange(Struct, frozen=True):
    """How the offer differs from the one that the checkout began with. None: that part is the same, or unknown."""

    old_total_minor: int | None
    old_quantity_grams: int | None


def read_shown_offer(fields: Mapping[str, Sequence[str]]) -> ShownOffer:
    """From the fields of a form. Values that no page of ours contains match no offer."""
    total, digest = ((fields.get(name) or [""])[0] for name in ("total", "offer"))
    is_total = total.isascii() and total.isdigit() and len(total) <= _MAX_TOTAL_DIGITS
    try:
        return ShownOffer(int(total) if is_total else -1, bytes.fromhex(digest))
    except ValueError:
        return ShownOffer(-1, b"")


def compare_with_start(checkout: Checkout, offer: PricedOffer) -> OfferChange | None:
    """None if the offer is the one that the checkout began with."""
    priced = offer.priced
    total = None if checkout.amount_due_minor == offer.amount_due_minor else checkout.amount_due_minor
    quantity = None if checkout.quantity_grams == priced.quantity_grams else checkout.quantity_grams
    return None if offer.digest == checkout.offer_digest else OfferChange(total, quantity)


class Offered(msgspec.Struct, frozen=True):
    """A bundle on offer. `choice` holds its percentage, if the selection has percentages."""

    bundle: Bundle
    choice: BundleChoiceIn
    is_available: bool


class LinkOffer(msgspec.Struct, frozen=True):
    """A link, and what its prices depend on. The terms are those of card payments, whatever the account's own are."""

    link: OffsetLink
    terms: Terms
    catalogue: Catalogue

    @property
    def language(self) -> str:
        """For visitors whose browser names none of our languages."""
        return self.link.language or self.terms.language

    @property
    def bundles(self) -> list[Offered]:
        """The bundles of the link, else the account's default, else the catalogue's. Unknown bundles are left out."""
        stored = self.link.bundle_selection or self.terms.default_selection or self.catalogue.default_selection or []
        choices = [msgspec.convert(choice, BundleChoiceIn) for choice in stored]
        found = [(self.catalogue.bundles.get(choice.bundle_id), choice) for choice in choices]
        return [
            Offered(bundle, choice, bundle.enabled and not bundle.is_sold_out and self.terms.available_grams(1) > 0)
            for bundle, choice in found
            if bundle is not None
        ]


def choose(offered: Sequence[Offered], bundle_ids: Sequence[str]) -> list[BundleChoiceIn]:
    """All bundles with their percentages, or some of them in equal parts. No ids mean all available bundles."""
    if not offered:
        raise errors.PriceUnavailable(N_("There is nothing on offer right now. Try again later."))
    known = {each.bundle.id: each.choice for each in offered}
    available = [each.bundle.id for each in offered if each.is_available]
    requested = dict.fromkeys(bundle_ids or available or known)
    if not requested.keys() <= known.keys():
        raise BundleNotOffered(field="bundle_id")
    if requested.keys() == known.keys():
        return [each.choice for each in offered]
    return [BundleChoiceIn(bundle_id) for bundle_id in known if bundle_id in requested]


def parse_quantity(text: str) -> int:
    """Reads tonnes as people type them; returns grams."""
    return _grams(_parse(text), MassUnit.T)


def parse_kilograms(text: str) -> int:
    """Reads kilograms as people type them; returns grams."""
    return _grams(_parse(text), MassUnit.KG)


def _grams(number: Decimal, unit: MassUnit) -> int:
    grams = to_grams(number, unit)
    if not 1 <= grams <= MAX_GRAMS:
        raise errors.QuantityInvalid(N_("Choose at least %(least)s."), field="amount", least=MassValue(1))
    return grams


def parse_value(text: str, currency: str) -> int:
    """Reads an amount of money as people type it; returns minor units."""
    value_minor = scaled(_parse(text), DECIMALS[currency])
    if value_minor is None or value_minor < 1:
        message = N_("Enter an amount above zero, with at most %(decimals)s decimals.")
        raise errors.ValueInvalid(message, field="amount", decimals=DECIMALS[currency])
    return value_minor


def _parse(text: str) -> Decimal:
    number = parse_typed(text)
    if number is None:
        raise AmountInvalid(field="amount")
    return number


def price_offer(offer: LinkOffer, requested: PriceRequest) -> PricedOffer:
    """The current offer. Raises if the link's limits or the available supply do not allow it."""
    try:
        priced = price(requested, offer.terms, offer.catalogue)
    except errors.ChargeTooSmall as error:
        raise errors.ChargeTooSmall(error.template, field="amount", smallest=error.smallest, **error.values) from error
    except errors.BelowMinimumOrder as error:
        raise errors.BelowMinimumOrder(error.template, field="amount", **error.values) from error
    except errors.PriceUnavailable as error:
        # Its own message advises placing an order that waits, which a visitor cannot do.
        message = N_("There is no price in %(currency)s right now. Try again later.")
        raise errors.PriceUnavailable(message, currency=offer.terms.currency) from error
    tax = tax_of(priced, offer.terms)
    _check_limits(offer.link, requested, priced, priced.total_cost_minor + (tax.tax_minor or 0))
    is_simulated = offer.terms.available_grams(priced.quantity_grams) < priced.quantity_grams
    if short := priced.lines if is_simulated else find_short_at_checkout(priced.lines, offer.catalogue):
        short_ids = {line.bundle_id for line in short}
        is_sold_out = not any(each.is_available for each in offer.bundles if each.bundle.id in short_ids)
        # Never how much is left: that would help to take all of it.
        message = (
            N_("%(names)s: sold out. Choose another option.")
            if is_sold_out
            else N_("Not enough of %(names)s. Choose a smaller amount or another option.")
        )
        names = NamesValue(tuple(line.bundle_name for line in short))
        raise BundleSoldOut(message, field="bundle_id", names=names)
    return PricedOffer(priced, tax, digest_offer(priced, tax, offer.catalogue))


def _check_limits(link: OffsetLink, requested: PriceRequest, priced: Priced, due_minor: int) -> None:
    """Compares a requested value as such: what it buys may cost a cent less. Limits of the value include tax."""

    def money(minor: int) -> MoneyValue:
        return MoneyValue(minor, priced.currency)

    for found, least, most, value in (
        (priced.quantity_grams, link.min_quantity_grams, link.max_quantity_grams, MassValue),
        (requested.value_minor or due_minor, link.min_value_minor, link.max_value_minor, money),
    ):
        if least is not None and found < least:
            message = N_("The minimum is %(least)s, and this is %(found)s. Choose more.")
            raise AmountOutOfBounds(message, field="amount", least=value(least), found=value(found))
        if most is not None and found > most:
            message = N_("The maximum is %(most)s, and this is %(found)s. Choose less.")
            raise AmountOutOfBounds(message, field="amount", most=value(most), found=value(found))
