"""What a request costs: the one entry to pricing, for quotes, estimates, orders and checkouts."""

from dataclasses import dataclass

from tonne.accounts.model import Terms
from tonne.catalog.errors import PriceUnavailable
from tonne.catalog.model import Catalogue
from tonne.catalog.pricing import Priced, PriceList, price_quantity, price_value
from tonne.catalog.selection import BundleChoiceIn, resolve, resolve_default


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRequest:
    """Exactly one of the amounts is set. Without `choices` the default selection is priced."""

    mass_grams: int | None = None
    value_minor: int | None = None
    choices: list[BundleChoiceIn] | None = None


def price(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced:
    """The price now, with the account's fee and in its currency.

    The selection is validated before the exchange rate is looked up: an invalid selection is an error of the client,
    a missing rate (PriceUnavailable) is not.
    """
    if request.choices is None:
        shares = resolve_default(terms.default_selection, catalogue)
    else:
        shares = resolve(request.choices, catalogue)
    prices = PriceList(catalogue, terms.currency, terms.fee_rate)
    if request.mass_grams is not None:
        return price_quantity(prices, shares, request.mass_grams)
    if request.value_minor is not None:
        return price_value(prices, shares, request.value_minor)
    raise ValueError("a price request needs a mass or a value")


def price_if_available(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced | None:
    """None while there is no price: no exchange rate, or no usable default selection."""
    try:
        return price(request, terms, catalogue)
    except PriceUnavailable:
        return None
