"""What a link offers, and the price of a visitor's choice."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import msgspec

from tonne.accounts.model import Terms
from tonne.base.currency import DECIMALS
from tonne.base.decimals import parse_decimal, scaled
from tonne.base.mass import MAX_GRAMS, MassUnit, format_tonnes, to_grams
from tonne.base.money import format_money
from tonne.catalog.errors import BelowMinimumOrder, ChargeTooSmall, PriceUnavailable, QuantityInvalid, ValueInvalid
from tonne.catalog.model import Bundle, Catalogue
from tonne.catalog.price import PriceRequest, price
from tonne.catalog.pricing import Priced
from tonne.catalog.selection import BundleChoiceIn
from tonne.checkout.errors import AmountInvalid, AmountOutOfBounds, BundleNotOffered, BundleSoldOut
from tonne.checkout.link_model import OffsetLink
from tonne.checkout.shown_offer import PricedOffer, digest_offer
from tonne.orders.order_tax import tax_of

_AMOUNT = re.compile(r"[0-9]{1,15}([.,][0-9]{1,12})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Offered:
    """A bundle on offer. `choice` holds its percentage, if the selection has percentages."""

    bundle: Bundle
    choice: BundleChoiceIn
    is_available: bool


@dataclass(frozen=True, slots=True)
class LinkOffer:
    """A link, and what its prices depend on. The terms are those of card payments, whatever the account's own are."""

    link: OffsetLink
    terms: Terms
    catalogue: Catalogue

    @property
    def bundles(self) -> list[Offered]:
        """The bundles of the link, else the account's default, else the catalogue's. Unknown bundles are left out."""
        stored = self.link.bundle_selection or self.terms.default_selection or self.catalogue.default_selection or []
        choices = [msgspec.convert(choice, BundleChoiceIn) for choice in stored]
        found = [(self.catalogue.bundles.get(choice.bundle_id), choice) for choice in choices]
        return [
            Offered(bundle, choice, bundle.enabled and self.terms.available_grams(bundle.free_grams) > 0)
            for bundle, choice in found
            if bundle is not None
        ]


def choose(offered: Sequence[Offered], bundle_ids: Sequence[str]) -> list[BundleChoiceIn]:
    """All bundles with their percentages, or some of them in equal parts. No ids mean all available bundles."""
    if not offered:
        raise PriceUnavailable("There is nothing on offer right now. Try again later.")
    known = {each.bundle.id: each.choice for each in offered}
    available = [each.bundle.id for each in offered if each.is_available]
    wanted = dict.fromkeys(bundle_ids or available or known)
    if not wanted.keys() <= known.keys():
        raise BundleNotOffered(field="bundle_id")
    if wanted.keys() == known.keys():
        return [each.choice for each in offered]
    return [BundleChoiceIn(bundle_id) for bundle_id in known if bundle_id in wanted]


def parse_quantity(text: str) -> int:
    """Reads tonnes as people type them; returns grams."""
    grams = to_grams(_parse(text), MassUnit.T)
    if not 1 <= grams <= MAX_GRAMS:
        raise QuantityInvalid("Choose at least 1 gram (0.000001 t).", field="amount")
    return grams


def parse_value(text: str, currency: str) -> int:
    """Reads an amount of money as people type it; returns minor units."""
    value_minor = scaled(_parse(text), DECIMALS[currency])
    if value_minor is None or value_minor < 1:
        raise ValueInvalid(f"Enter an amount above zero, with at most {DECIMALS[currency]} decimals.", field="amount")
    return value_minor


def _parse(text: str) -> Decimal:
    """A point or a comma is the decimal separator. Thousands separators are rejected as ambiguous."""
    stripped = text.strip()
    number = parse_decimal(stripped.replace(",", ".")) if _AMOUNT.fullmatch(stripped) else None
    if number is None:
        raise AmountInvalid(field="amount")
    return number


def price_offer(offer: LinkOffer, wanted: PriceRequest) -> PricedOffer:
    """The current offer. Raises if the link's limits or the available supply do not allow it."""
    try:
        priced = price(wanted, offer.terms, offer.catalogue)
    except ChargeTooSmall as error:
        raise ChargeTooSmall(str(error), field="amount") from error
    except BelowMinimumOrder as error:
        raise BelowMinimumOrder(str(error), field="amount") from error
    except PriceUnavailable as error:
        # Its own message advises placing an order that waits, which a visitor cannot do.
        raise PriceUnavailable(f"There is no price in {offer.terms.currency} right now. Try again later.") from error
    tax = tax_of(priced, offer.terms)
    _check_limits(offer.link, wanted, priced, priced.total_cost_minor + (tax.tax_minor or 0))
    short = [line for line in priced.lines if line.insufficient_available_quantity]
    if short:
        # Several lines may compete for the same projects, each of which counts once.
        bundles = [offer.catalogue.bundles[line.bundle_id] for line in short]
        free = {share.project.id: share.free_grams for bundle in bundles for share in bundle.projects}
        left = offer.terms.available_grams(sum(free.values()))
        names = " and ".join(line.bundle_name for line in short)
        words = f"only {format_tonnes(left)} t left" if left else "sold out"
        message = f"Not enough of {names}: {words}. Choose a smaller amount or another option."
        raise BundleSoldOut(message, field="bundle_id")
    return PricedOffer(priced, tax, digest_offer(priced, tax, offer.catalogue))


def _check_limits(link: OffsetLink, wanted: PriceRequest, priced: Priced, due_minor: int) -> None:
    """Compares a requested value as such: what it buys may cost a cent less. Limits of the value include tax."""

    def tonnes(grams: int) -> str:
        return f"{format_tonnes(grams)} t"

    def money(minor: int) -> str:
        return f"{format_money(minor, priced.currency)} {priced.currency}"

    for found, least, most, spell in (
        (priced.quantity_grams, link.min_quantity_grams, link.max_quantity_grams, tonnes),
        (wanted.value_minor or due_minor, link.min_value_minor, link.max_value_minor, money),
    ):
        if least is not None and found < least:
            raise AmountOutOfBounds(
                f"The minimum is {spell(least)}, and this is {spell(found)}. Choose more.", field="amount"
            )
        if most is not None and found > most:
            raise AmountOutOfBounds(
                f"The maximum is {spell(most)}, and this is {spell(found)}. Choose less.", field="amount"
            )
