"""Quantities are cut to whole units before they are split."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.pricing_oracle import Case
from tonne.selling.catalogue.errors import ValueInvalid
from tonne.selling.catalogue.prices.pricing import price_value
from tonne.selling.catalogue.prices.quantity_unit import GRAMS_OF_UNIT, QuantityUnit, cut_quantity


def test_quantities_are_cut_down() -> None:
    assert [cut_quantity(1_999_999, unit) for unit in (None, *QuantityUnit)] == [
        1_999_999,
        1_999_999,
        1_999_000,
        1_000_000,
    ]
    assert cut_quantity(999_999, QuantityUnit.TONNE) == 0


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 50_000), st.integers(1, 9_999)), min_size=1, max_size=4),
    st.integers(1, 10**8),
    st.sampled_from([QuantityUnit.KILOGRAM, QuantityUnit.TONNE]),
)
def test_a_value_buys_whole_units_and_never_costs_more(
    bundles: list[tuple[int, int]], value_minor: int, unit: QuantityUnit
) -> None:
    case = Case(tuple(net for net, _ in bundles), tuple(weight for _, weight in bundles))
    prices, shares = case.prices(), case.shares()
    try:
        priced = price_value(prices, shares, value_minor, unit)
    except ValueInvalid:
        # The blended price of a unit is above the value, or so close that splitting the unit rounds above it.
        gross = sum(prices.gross_minor(share.bundle) * share.weight for share in shares)
        unit_cost = gross * GRAMS_OF_UNIT[unit] / sum(share.weight for share in shares) / 1_000_000
        assert value_minor < unit_cost + 1
        return
    assert priced.quantity_grams % GRAMS_OF_UNIT[unit] == 0
    assert priced.total_cost_minor <= value_minor
    exact = price_value(prices, shares, value_minor)
    assert exact.quantity_grams - priced.quantity_grams < 2 * GRAMS_OF_UNIT[unit]
