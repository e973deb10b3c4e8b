"""Pricing arithmetic: splits a mass or a value over bundles. `price.py` is the entry to it.

Everything is a whole number: grams, minor units, and weights whose sum is the whole. See docs/pricing.md.
"""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from tonne.platform.values.amounts import DECIMALS, GRAMS_PER_TONNE, MAX_GRAMS, apportion, ceil, half_up
from tonne.selling.catalogue.coverage import Demand, cover
from tonne.selling.catalogue.errors import PriceRoundsToZero, PriceUnavailable, QuantityInvalid, ValueInvalid
from tonne.selling.catalogue.model import Bundle, Catalogue, ExchangeRate
from tonne.selling.catalogue.prices.quantity_unit import GRAMS_OF_UNIT, QuantityUnit, cut_quantity

# The maximum of the database columns.
MAX_MINOR = 2**63 - 1


class BundleShare(msgspec.Struct, frozen=True):
    """A bundle and its weight: a part of `WHOLE` per cent, 1 for each bundle of an equal split, or its own grams."""

    bundle: Bundle
    weight: int


class PricedLine(msgspec.Struct, frozen=True):
    bundle_id: str
    bundle_name: str
    primary_image: str | None
    quantity_grams: int
    unit_price_minor: int
    gross_unit_price_minor: int
    offset_cost_minor: int
    insufficient_available_quantity: bool


class Priced(msgspec.Struct, frozen=True):
    currency: str
    fee_rate: Fraction
    exchange: ExchangeRate | None
    quantity_grams: int
    offset_cost_minor: int
    commission_minor: int
    total_cost_minor: int
    lines: tuple[PricedLine, ...]


class PriceList:
    """Unit prices in one currency with one fee. Converted and rounded once; all sums use the rounded prices.

    Totals are rounded up to a multiple of `total_unit` minor units.
    """

    def __init__(self, catalogue: Catalogue, currency: str, fee_rate: Fraction, *, total_unit: int = 1) -> None:
        self.currency = currency
        self.fee_rate = fee_rate
        self.total_unit = total_unit
        self.exchange: ExchangeRate | None = None
        self._factor = Fraction(1)
        # By bundle. Each is used several times.
        self._net: dict[str, int] = {}
        self._gross: dict[str, int] = {}
        if currency != catalogue.currency:
            self.exchange = catalogue.rates.get(currency)
            if self.exchange is None:
                raise PriceUnavailable(f"There is no exchange rate from {catalogue.currency} to {currency} now.")
            if catalogue.rates_since is not None and self.exchange.as_of < catalogue.rates_since:
                raise PriceUnavailable(
                    f"The exchange rate from {catalogue.currency} to {currency} is too old: it is of "
                    f"{self.exchange.as_of:%Y-%m-%d}. Try again later, or place an order: it is priced as soon as "
                    "there is a new rate."
                )
            shift = DECIMALS[currency] - DECIMALS[catalogue.currency]
            self._factor = Fraction(self.exchange.rate) * Fraction(10) ** shift

    @classmethod
    def kept(cls, catalogue: Catalogue, currency: str, fee_rate: Fraction, *, total_unit: int = 1) -> "PriceList":
        """The same list for all requests until the catalogue is refreshed."""
        # Not the fee itself: the hash of a Fraction takes longer than all other look-ups of a quote.
        key = (currency, fee_rate.numerator, fee_rate.denominator, total_unit)
        found: PriceList | None = catalogue.kept.get(key)
        if found is None:
            found = catalogue.kept[key] = cls(catalogue, currency, fee_rate, total_unit=total_unit)
        return found

    def net_minor(self, bundle: Bundle) -> int:
        net = self._net.get(bundle.id)
        if net is None:
            factor = self._factor
            net = self._net[bundle.id] = half_up(bundle.unit_price_minor * factor.numerator, factor.denominator)
        return net

    def gross_minor(self, bundle: Bundle) -> int:
        """The net price divided by (1 - fee): the fee is a share of what the customer pays."""
        gross = self._gross.get(bundle.id)
        if gross is None:
            fee = self.fee_rate
            gross = half_up(self.net_minor(bundle) * fee.denominator, fee.denominator - fee.numerator)
            self._gross[bundle.id] = gross
        return gross


def price_quantity(prices: PriceList, shares: Sequence[BundleShare], mass_grams: int) -> Priced:
    """Price a mass. It is split over the bundles to the gram."""
    if not 1 <= mass_grams <= MAX_GRAMS:
        raise QuantityInvalid
    _require_prices(prices, shares)
    return _price_lines(prices, shares, apportion(mass_grams, [share.weight for share in shares]))


def price_value(
    prices: PriceList, shares: Sequence[BundleShare], value_minor: int, unit: QuantityUnit | None = None
) -> Priced:
    """Price as much as `value_minor` buys, fee included, at the blended price. Each line is cut to whole grams.

    With `unit`, the quantity is cut to whole units before it is split.
    """
    _require_prices(prices, shares)
    # Rounded down, so that the total, which is rounded up, does not exceed the value.
    value_minor -= value_minor % prices.total_unit
    if value_minor < 1:
        raise ValueInvalid
    # The blended price times the sum of the weights. That sum cancels out below.
    blended = sum(share.weight * prices.gross_minor(share.bundle) for share in shares)
    grams = [value_minor * share.weight * GRAMS_PER_TONNE // blended for share in shares]
    if sum(grams) > MAX_GRAMS:
        raise QuantityInvalid("The value buys more than 100,000,000 tonnes. Order less.")
    if sum(grams) < 1:
        raise ValueInvalid
    if unit is None or unit is QuantityUnit.GRAM:
        return _price_lines(prices, shares, grams)
    whole = value_minor * sum(share.weight for share in shares) * GRAMS_PER_TONNE // blended
    return _price_units(prices, shares, value_minor, cut_quantity(whole, unit), unit)


def _price_units(
    prices: PriceList, shares: Sequence[BundleShare], value_minor: int, grams: int, unit: QuantityUnit
) -> Priced:
    """One unit less if splitting the grams rounds the cost above the value."""
    weights = [share.weight for share in shares]
    while grams > 0:
        priced = _price_lines(prices, shares, apportion(grams, weights))
        if priced.total_cost_minor <= value_minor:
            return priced
        grams -= GRAMS_OF_UNIT[unit]
    raise ValueInvalid(f"The value buys less than 1 {unit}. Choose a larger value, or a smaller quantity_trunc.")


def _require_prices(prices: PriceList, shares: Sequence[BundleShare]) -> None:
    for share in shares:
        if prices.net_minor(share.bundle) == 0:
            raise PriceRoundsToZero(
                f"The price of {share.bundle.name} rounds to zero in {prices.currency}, so it cannot be sold. Choose "
                "another bundle."
            )


def _price_lines(prices: PriceList, shares: Sequence[BundleShare], grams: Sequence[int]) -> Priced:
    parts: list[tuple[Bundle, int]] = []
    unit_prices: list[tuple[int, int]] = []
    net_sums: list[int] = []
    gross_sum = 0
    for share, mass in zip(shares, grams, strict=True):
        # No line for a bundle with less than a gram: there would be nothing to retire.
        if mass > 0:
            net, gross = prices.net_minor(share.bundle), prices.gross_minor(share.bundle)
            parts.append((share.bundle, mass))
            unit_prices.append((net, gross))
            net_sums.append(mass * net)
            gross_sum += mass * gross
    total_cost, offset_cost = _round(gross_sum, sum(net_sums), prices.fee_rate, prices.total_unit)
    if max(total_cost, *[gross for _, gross in unit_prices]) > MAX_MINOR:
        raise QuantityInvalid("The cost is too large. Order less at a time.")
    costs = apportion(offset_cost, net_sums)
    short = _find_short(parts)
    lines = [
        PricedLine(
            bundle_id=bundle.id,
            bundle_name=bundle.name,
            primary_image=bundle.primary_image,
            quantity_grams=mass,
            unit_price_minor=unit_prices[i][0],
            gross_unit_price_minor=unit_prices[i][1],
            offset_cost_minor=costs[i],
            insufficient_available_quantity=i in short,
        )
        for i, (bundle, mass) in enumerate(parts)
    ]
    return Priced(
        currency=prices.currency,
        fee_rate=prices.fee_rate,
        exchange=prices.exchange,
        quantity_grams=sum(grams),
        offset_cost_minor=offset_cost,
        commission_minor=total_cost - offset_cost,
        total_cost_minor=total_cost,
        lines=tuple(lines),
    )


def _round(gross_sum: int, net_sum: int, fee_rate: Fraction, total_unit: int) -> tuple[int, int]:
    """Total and offset cost. Without a fee they are the same: rounding must not create a commission."""
    total_cost = ceil(gross_sum, GRAMS_PER_TONNE * total_unit) * total_unit
    return total_cost, half_up(net_sum, GRAMS_PER_TONNE) if fee_rate else total_cost


def reduce_priced(priced: Priced, grams: int, *, total_unit: int) -> Priced:
    """A smaller quantity at the same prices, split over the bundles as before. No line and no sum is larger then."""
    masses = apportion(grams, [line.quantity_grams for line in priced.lines])
    lines = [
        msgspec.structs.replace(line, quantity_grams=mass)
        for line, mass in zip(priced.lines, masses, strict=True)
        if mass > 0
    ]
    net_sums = [line.quantity_grams * line.unit_price_minor for line in lines]
    gross_sum = sum(line.quantity_grams * line.gross_unit_price_minor for line in lines)
    total_cost, offset_cost = _round(gross_sum, sum(net_sums), priced.fee_rate, total_unit)
    costs = apportion(offset_cost, net_sums)
    return msgspec.structs.replace(
        priced,
        quantity_grams=grams,
        offset_cost_minor=offset_cost,
        commission_minor=total_cost - offset_cost,
        total_cost_minor=total_cost,
        lines=tuple(
            msgspec.structs.replace(line, offset_cost_minor=cost) for line, cost in zip(lines, costs, strict=True)
        ),
    )


def is_short(lines: Sequence[PricedLine], catalogue: Catalogue) -> bool:
    """Whether supply does not cover these lines now. A bundle that no longer exists has no supply."""
    known = [(catalogue.bundles[line.bundle_id], line) for line in lines if line.bundle_id in catalogue.bundles]
    return len(known) < len(lines) or bool(_find_short([(bundle, line.quantity_grams) for bundle, line in known]))


def find_short_at_checkout(lines: Sequence[PricedLine], catalogue: Catalogue) -> list[PricedLine]:
    """Those that supply would not cover even if no customer who is at checkout now paid."""
    parts = [(catalogue.bundles[line.bundle_id], line.quantity_grams) for line in lines]
    return [lines[i] for i in sorted(_find_short(parts, with_pending=True))]


def _find_short(parts: Sequence[tuple[Bundle, int]], *, with_pending: bool = False) -> set[int]:
    """The indexes of the lines that supply does not cover. Lines that draw on the same project are checked together."""
    if sum([mass for _, mass in parts]) <= min([bundle.free_grams for bundle, _ in parts]):
        return set()
    free = {
        share.project.id: share.free_grams + (share.pending_grams if with_pending else 0)
        for bundle, _ in parts
        for share in bundle.projects
    }
    demands = [Demand(mass, [share.project.id for share in bundle.projects]) for bundle, mass in parts]
    return cover(demands, free).short
