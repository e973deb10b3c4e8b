"""The bundles on a link's page: price of a tonne, removal or avoidance, picture, and which are selected at first."""

from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from tonne.channels.checkout.links.amounts import Bought
from tonne.channels.checkout.links.offer import LinkOffer, Offered
from tonne.platform.values.amounts import GRAMS_PER_TONNE
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import N_
from tonne.selling.catalogue.pictures.pictures import bundle_picture
from tonne.selling.catalogue.prices.price import PriceRequest, price_for_display, tax_minor_on
from tonne.selling.catalogue.selection import BundleChoiceIn

_TAGS = {
    frozenset({"removal"}): N_("Removal"),
    frozenset({"avoidance"}): N_("Avoidance"),
    frozenset({"removal", "avoidance"}): N_("Removal and avoidance"),
}


class BundleCard(Struct, frozen=True):
    """`unit_price_minor` is what a customer pays for a tonne, fee and tax included. None while there is no price.

    `share` is the bundle's part of a mix.
    """

    id: str
    name: str
    description: str
    tag: str
    picture: str
    unit_price_minor: int | None
    share: Fraction | None
    is_available: bool
    is_chosen: bool


def bundle_cards(offer: LinkOffer, chosen: Sequence[str]) -> list[BundleCard]:
    is_mix = _is_mix(offer.bundles)
    return [
        BundleCard(
            id=each.bundle.id,
            name=each.bundle.name,
            description=each.bundle.description,
            tag=_TAGS.get(frozenset(share.project.mechanism for share in each.bundle.projects), ""),
            picture=bundle_picture(each.bundle),
            unit_price_minor=unit_price(offer, [BundleChoiceIn(each.bundle.id)]),
            share=Fraction(each.choice.percentage) / 100 if is_mix and each.choice.percentage is not None else None,
            is_available=each.is_available,
            is_chosen=each.is_available and each.bundle.id in chosen,
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
