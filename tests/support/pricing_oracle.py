"""The expected price of an order, calculated from the rules in exact fractions of tonnes and currency units.

Nothing here is shared with the code under test but the rules themselves: see docs/pricing.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from tonne.platform.values.amounts import DECIMALS, MAX_GRAMS
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.model import Bundle, BundleProject, Catalogue, ExchangeRate, Project
from tonne.selling.catalogue.prices.pricing import BundleShare, Priced, PriceList, price_quantity, price_value

NOW = datetime(2026, 11, 1, tzinfo=UTC)
GRAMS = 1_000_000
TEN_PER_CENT = Fraction(1, 10)


@dataclass(frozen=True)
class Case:
    """Net prices in minor units of EUR with their weights, bought in `currency` at `rate`."""

    net_minor: tuple[int, ...]
    weights: tuple[int, ...]
    fee_rate: Fraction = TEN_PER_CENT
    currency: str = "EUR"
    rate: Decimal = Decimal(1)
    # Minor units that the total is a multiple of.
    total_unit: int = 1

    def shares(self) -> list[BundleShare]:
        return [
            BundleShare(_bundle(i, net), w) for i, (net, w) in enumerate(zip(self.net_minor, self.weights, strict=True))
        ]

    def prices(self) -> PriceList:
        rates = {}
        if self.currency != "EUR":
            rates[self.currency] = ExchangeRate("EUR", self.currency, self.rate, "test", NOW)
        catalogue = Catalogue(Mode.TEST, "EUR", 1, None, {}, {}, rates)
        return PriceList(catalogue, self.currency, self.fee_rate, total_unit=self.total_unit)

    def by_quantity(self, mass_grams: int) -> Priced:
        return price_quantity(self.prices(), self.shares(), mass_grams)

    def by_value(self, value_minor: int) -> Priced:
        return price_value(self.prices(), self.shares(), value_minor)


def _bundle(i: int, net_minor: int) -> Bundle:
    projects = (supplied(f"prj_{i}", MAX_GRAMS),)
    return Bundle(f"bun_{i}", f"b{i}", f"Bundle {i}", "", None, net_minor, True, NOW, projects)


def supplied(project_id: str, free_grams: int) -> BundleProject:
    """A project with this much supply."""
    facts = ("Verra", project_id, project_id, project_id, "Kenya", "Wind", None, "avoidance", None, None, None, NOW)
    return BundleProject(Project(project_id, *facts), 1, free_grams)


def _half_up(number: Fraction) -> int:
    return math.floor(number + Fraction(1, 2))


def largest_remainder(total: int, shares: Sequence[Fraction]) -> list[int]:
    """Distribute the whole parts, then one unit at a time to the share that is furthest below its exact value."""
    whole = sum(shares)
    due = [total * share / whole for share in shares]
    got = [math.floor(part) for part in due]
    for _ in range(total - sum(got)):
        behind = [part - have for part, have in zip(due, got, strict=True)]
        got[behind.index(max(behind))] += 1
    return got


def unit_prices(case: Case) -> tuple[list[Fraction], list[Fraction]]:
    """Net and gross price of a tonne of each bundle, rounded to the currency's smallest unit."""
    smallest = Fraction(1, 10 ** DECIMALS[case.currency])
    net = [_half_up(Fraction(price, 100) * Fraction(case.rate) / smallest) * smallest for price in case.net_minor]
    gross = [_half_up(price / (1 - case.fee_rate) / smallest) * smallest for price in net]
    return net, gross


def grams_by_quantity(case: Case, mass_grams: int) -> list[int]:
    return largest_remainder(mass_grams, [Fraction(weight) for weight in case.weights])


def grams_by_value(case: Case, value_minor: int) -> list[int]:
    """The quantity at the blended gross price, each line rounded down to the gram."""
    _, gross = unit_prices(case)
    parts = [Fraction(weight, sum(case.weights)) for weight in case.weights]
    blended = sum(part * price for part, price in zip(parts, gross, strict=True))
    payable = math.floor(Fraction(value_minor, case.total_unit)) * case.total_unit
    tonnes = Fraction(payable, 10 ** DECIMALS[case.currency]) / blended
    return [math.floor(tonnes * part * GRAMS) for part in parts]


def check_price(case: Case, priced: Priced, grams: Sequence[int]) -> None:
    """Compare every number of `priced` with the result of the rules for these grams of each bundle."""
    units = 10 ** DECIMALS[case.currency]
    net, gross = unit_prices(case)
    bought = [i for i, mass in enumerate(grams) if mass > 0]
    costs = [Fraction(grams[i], GRAMS) * net[i] for i in bought]
    exact = sum(Fraction(grams[i], GRAMS) * gross[i] for i in bought) * units
    total = math.ceil(exact / case.total_unit) * case.total_unit
    offset = total if case.fee_rate == 0 else _half_up(sum(costs) * units)
    line_costs = largest_remainder(offset, costs)

    assert priced.quantity_grams == sum(grams)
    assert (priced.offset_cost_minor, priced.total_cost_minor) == (offset, total)
    assert priced.commission_minor == total - offset
    assert [line.bundle_id for line in priced.lines] == [f"bun_{i}" for i in bought]
    assert [line.quantity_grams for line in priced.lines] == [grams[i] for i in bought]
    assert [line.unit_price_minor for line in priced.lines] == [net[i] * units for i in bought]
    assert [line.gross_unit_price_minor for line in priced.lines] == [gross[i] * units for i in bought]
    assert [line.offset_cost_minor for line in priced.lines] == line_costs
