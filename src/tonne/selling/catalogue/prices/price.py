"""What a request costs: the one entry to pricing, for quotes, estimates, orders and checkouts."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import structs

from tonne.platform.values.amounts import TaxTreatment, charge_unit, largest_net, minimum_charge, tax_on
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import N_
from tonne.platform.values.message_values import MoneyValue
from tonne.selling.accounts.model import PaymentMethod, Terms
from tonne.selling.catalogue import errors, selection
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.pricing import (
    MAX_MINOR,
    BundleShare,
    Priced,
    PriceList,
    price_quantity,
    price_value,
)
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit, cut_quantity


class OrderType(StrEnum):
    """What was requested."""

    QUANTITY = "quantity"
    VALUE = "value"


class PaymentPlan(StrEnum):
    """How an order is paid."""

    # By a card payment, or an invoice, of its own.
    NOW = "now"
    # Together with other orders.
    COLLECTED = "collected"


class PriceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of the amounts is set. Without `choices` and `masses` the default selection is priced."""

    # With `masses`, their sum.
    mass_grams: int | None = None
    value_minor: int | None = None
    choices: list[selection.BundleChoiceIn] | None = None
    # A mass for each bundle, instead of `choices`.
    masses: tuple[selection.BundleMass, ...] | None = None
    # The quantity is cut to whole units before it is split; each of `masses` by itself.
    unit: QuantityUnit | None = None

    @property
    def stored_selection(self) -> list[dict[str, Any]] | None:
        """The bundles as they are stored with an order, to price it later."""
        if self.masses is not None:
            return [{"bundle_id": each.bundle_id, "mass_grams": each.mass_grams} for each in self.masses]
        return None if self.choices is None else [dict(each) for each in selection.storable(self.choices)]

    def with_stored_selection(self, stored: Sequence[dict[str, Any]] | None) -> "PriceRequest":
        if stored is None:
            return self
        if any("mass_grams" in each for each in stored):
            return structs.replace(self, masses=tuple(msgspec.convert(each, selection.BundleMass) for each in stored))
        return structs.replace(self, choices=[msgspec.convert(each, selection.BundleChoiceIn) for each in stored])


def price(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced:
    """The price now, with the account's fee, in its currency, and in an amount that its payment method can pay.

    The selection is validated before the exchange rate is looked up: an invalid selection is an error of the client,
    a missing rate (PriceUnavailable) is not.
    """
    # The minimum applies to the charge. Orders that are billed together, or too small, share one.
    is_charged = terms.is_charged_alone and not terms.collect_below_minor
    if is_charged and request.value_minor is not None:
        _require_chargeable("value", request.value_minor, request, terms, catalogue)
    priced = _price(request, terms, catalogue)
    least = terms.minimum_order_minor
    if least is not None and priced.total_cost_minor < least:
        raise errors.BelowMinimumOrder(
            N_("The total is %(total)s. The minimum for an order is %(least)s: choose a larger amount."),
            total=MoneyValue(priced.total_cost_minor, terms.currency),
            least=MoneyValue(least, terms.currency),
        )
    if is_charged:
        due = priced.total_cost_minor + (tax_minor_on(priced.total_cost_minor, terms) or 0)
        _require_chargeable("total", due, request, terms, catalogue)
    return priced


def tax_minor_on(total_cost_minor: int, terms: Terms) -> int | None:
    """The tax that is added to a total cost. None if it is computed later, for all orders of an invoice."""
    if terms.is_billed_together:
        return None
    tax_minor = tax_on(total_cost_minor, terms.tax.treatment, terms.tax.rate, unit=_charge_unit(terms))
    is_collected = terms.is_charged_alone and 0 < total_cost_minor + tax_minor < terms.collect_below_minor
    return None if is_collected else tax_minor


def price_if_available(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced | None:
    """None while there is no price: no usable exchange rate, or no usable default selection."""
    try:
        return price(request, terms, catalogue)
    except errors.PriceUnavailable:
        return None


def price_for_display(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced | None:
    """The price of what may never be ordered, also below the minimum of card payments. None while there is none."""
    try:
        return _price(request, terms, catalogue)
    except (errors.PriceUnavailable, errors.PriceRoundsToZero):
        return None


def _price(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced:
    shares: Sequence[BundleShare]
    if request.masses is not None:
        shares = selection.resolve_masses(request.masses, catalogue, request.unit)
    elif request.choices is None:
        shares = selection.resolve_default(terms.default_selection, catalogue)
    else:
        shares = selection.resolve(request.choices, catalogue)
    prices = PriceList.kept(catalogue, terms.currency, terms.fee_rate, total_unit=_charge_unit(terms))
    if request.masses is not None:
        priced = price_quantity(prices, shares, sum(share.weight for share in shares))
    elif request.mass_grams is not None:
        priced = price_quantity(prices, shares, _cut(request.mass_grams, request.unit))
    elif request.value_minor is not None:
        priced = price_value(prices, shares, _net_value(request.value_minor, terms), request.unit)
    else:
        raise ValueError("a price request needs a mass or a value")
    if priced.total_cost_minor + (tax_minor_on(priced.total_cost_minor, terms) or 0) > MAX_MINOR:
        raise errors.QuantityInvalid("The cost is too large. Order less at a time.")
    if terms.available_grams(priced.quantity_grams) < priced.quantity_grams:
        # The account simulates short supply.
        short = tuple(structs.replace(line, insufficient_available_quantity=True) for line in priced.lines)
        return structs.replace(priced, lines=short)
    return priced


def _cut(mass_grams: int, unit: QuantityUnit | None) -> int:
    cut = cut_quantity(mass_grams, unit)
    if unit is not None and not cut:
        raise errors.QuantityInvalid(
            f"The mass is less than 1 {unit}. Send a larger mass, or a smaller quantity_trunc."
        )
    return cut


def _charge_unit(terms: Terms) -> int:
    """Total and tax are both multiples of it, and so is what the card is charged.

    Orders that are billed together are not rounded: the sum of their invoice is.
    """
    return charge_unit(terms.currency) if terms.is_charged_alone else 1


def _net_value(value_minor: int, terms: Terms) -> int:
    """How much of a value, which includes tax, is left for the total cost."""
    treatment, rate, unit = terms.tax.treatment, terms.tax.rate, _charge_unit(terms)
    is_collected = terms.is_charged_alone and value_minor < terms.collect_below_minor
    if treatment is TaxTreatment.STANDARD and (terms.is_billed_together or is_collected):
        # The order's share of the tax of an invoice may be a unit more than the tax on the order alone.
        is_charged = terms.payment_method is PaymentMethod.CARD
        value_minor = max(0, value_minor - (charge_unit(terms.currency) if is_charged else unit))
    return largest_net(value_minor, treatment, rate, unit=unit)


_TOO_SMALL = {
    "value": N_("The value is %(amount)s. The minimum for a card payment is %(least)s: choose a larger amount."),
    "total": N_("The total is %(amount)s. The minimum for a card payment is %(least)s: choose a larger amount."),
}


# Tax is rounded, so that there may be no total cost that makes exactly the minimum with it.
_TRIED_AMOUNTS = 5


def _require_chargeable(
    name: str, amount_minor: int, request: PriceRequest, terms: Terms, catalogue: Catalogue
) -> None:
    currency, least = terms.currency, minimum_charge(terms.currency)
    if amount_minor < least:
        raise errors.ChargeTooSmall(
            _TOO_SMALL[name],
            smallest=_find_smallest(request, terms, catalogue),
            amount=MoneyValue(amount_minor, currency),
            least=MoneyValue(least, currency),
        )


def _find_smallest(request: PriceRequest, terms: Terms, catalogue: Catalogue) -> errors.SmallestPayment | None:
    """None without a price, and for masses of bundles, of which each was chosen."""
    if request.masses is not None:
        return None
    least, unit = minimum_charge(terms.currency), _charge_unit(terms)
    for value_minor in range(least, least + _TRIED_AMOUNTS * unit, unit):
        by_value = PriceRequest(value_minor=value_minor, choices=request.choices)
        try:
            priced = _price(by_value, terms, catalogue)
        except TonneError:
            return None
        due_minor = priced.total_cost_minor + (tax_minor_on(priced.total_cost_minor, terms) or 0)
        if due_minor >= least:
            return errors.SmallestPayment(due_minor, terms.currency, priced.quantity_grams)
    return None
