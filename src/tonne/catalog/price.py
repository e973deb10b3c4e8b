"""What a request costs: the one entry to pricing, for quotes, estimates, orders and checkouts."""

from dataclasses import dataclass, replace
from enum import StrEnum

from tonne.accounts.model import PaymentMethod, Terms
from tonne.base.money import format_money
from tonne.base.tax import TaxTreatment, largest_net, tax_on
from tonne.catalog.errors import BelowMinimumOrder, ChargeTooSmall, PriceRoundsToZero, PriceUnavailable, QuantityInvalid
from tonne.catalog.model import Catalogue
from tonne.catalog.pricing import MAX_MINOR, Priced, PriceList, price_quantity, price_value
from tonne.catalog.selection import BundleChoiceIn, resolve, resolve_default
from tonne.gateways.card_amounts import charge_unit, minimum_charge


class OrderType(StrEnum):
    """What was requested."""

    QUANTITY = "quantity"
    VALUE = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRequest:
    """Exactly one of the amounts is set. Without `choices` the default selection is priced."""

    mass_grams: int | None = None
    value_minor: int | None = None
    choices: list[BundleChoiceIn] | None = None


def price(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced:
    """The price now, with the account's fee, in its currency, and in an amount that its payment method can pay.

    The selection is validated before the exchange rate is looked up: an invalid selection is an error of the client,
    a missing rate (PriceUnavailable) is not.
    """
    # The minimum applies to the charge. Orders that are billed together share one.
    is_charged = terms.payment_method is PaymentMethod.CARD and not terms.is_billed_together
    if is_charged and request.value_minor is not None:
        _require_chargeable("value", request.value_minor, terms.currency)
    priced = _price(request, terms, catalogue)
    least = terms.minimum_order_minor
    if least is not None and priced.total_cost_minor < least:
        raise BelowMinimumOrder(
            f"The total is {format_money(priced.total_cost_minor, terms.currency)} {terms.currency}. The minimum for "
            f"an order is {format_money(least, terms.currency)} {terms.currency}: choose a larger amount."
        )
    if is_charged:
        due = priced.total_cost_minor + (tax_minor_on(priced.total_cost_minor, terms) or 0)
        _require_chargeable("total", due, terms.currency)
    return priced


def tax_minor_on(total_cost_minor: int, terms: Terms) -> int | None:
    """The tax that is added to a total cost. None if it is computed later, for all orders of an invoice."""
    if terms.is_billed_together:
        return None
    return tax_on(total_cost_minor, terms.tax.treatment, terms.tax.rate, unit=_charge_unit(terms))


def price_if_available(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced | None:
    """None while there is no price: no usable exchange rate, or no usable default selection."""
    try:
        return price(request, terms, catalogue)
    except PriceUnavailable:
        return None


def price_for_display(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced | None:
    """The price of what may never be ordered, also below the minimum of card payments. None while there is none."""
    try:
        return _price(request, terms, catalogue)
    except (PriceUnavailable, PriceRoundsToZero):
        return None


def _price(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced:
    if request.choices is None:
        shares = resolve_default(terms.default_selection, catalogue)
    else:
        shares = resolve(request.choices, catalogue)
    prices = PriceList(catalogue, terms.currency, terms.fee_rate, total_unit=_charge_unit(terms))
    if request.mass_grams is not None:
        priced = price_quantity(prices, shares, request.mass_grams)
    elif request.value_minor is not None:
        priced = price_value(prices, shares, _net_value(request.value_minor, terms))
    else:
        raise ValueError("a price request needs a mass or a value")
    if priced.total_cost_minor + (tax_minor_on(priced.total_cost_minor, terms) or 0) > MAX_MINOR:
        raise QuantityInvalid("The cost is too large. Order less at a time.")
    if terms.available_grams(priced.quantity_grams) < priced.quantity_grams:
        # The account simulates short supply.
        short = tuple(replace(line, insufficient_available_quantity=True) for line in priced.lines)
        return replace(priced, lines=short)
    return priced


def _charge_unit(terms: Terms) -> int:
    """Total and tax are both multiples of it, and so is what the card is charged.

    Orders that are billed together are not rounded: the sum of their invoice is.
    """
    is_charged = terms.payment_method is PaymentMethod.CARD and not terms.is_billed_together
    return charge_unit(terms.currency) if is_charged else 1


def _net_value(value_minor: int, terms: Terms) -> int:
    """How much of a value, which includes tax, is left for the total cost."""
    treatment, rate, unit = terms.tax.treatment, terms.tax.rate, _charge_unit(terms)
    if treatment is TaxTreatment.STANDARD and terms.is_billed_together:
        # The order's share of the tax of an invoice may be a unit more than the tax on the order alone.
        value_minor = max(0, value_minor - unit)
    return largest_net(value_minor, treatment, rate, unit=unit)


def _require_chargeable(name: str, amount_minor: int, currency: str) -> None:
    least = minimum_charge(currency)
    if amount_minor < least:
        raise ChargeTooSmall(
            f"The {name} is {format_money(amount_minor, currency)} {currency}. The minimum for a card payment is "
            f"{format_money(least, currency)} {currency}: choose a larger amount."
        )
