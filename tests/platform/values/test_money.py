"""Rounding and apportioning."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.values.amounts import apportion, ceil, format_money, half_up

_amounts = st.integers(0, 10**24)
_weights = st.lists(st.integers(0, 10**20), min_size=1, max_size=12).filter(any)


@pytest.mark.parametrize(
    ("amount_minor", "currency", "text"),
    [
        (717_600, "EUR", "7176.00"),
        (7176, "JPY", "7176"),
        (7_176_001, "KWD", "7176.001"),
        (0, "EUR", "0.00"),
        (5, "KWD", "0.005"),
    ],
)
def test_money_has_the_decimals_of_its_currency(amount_minor: int, currency: str, text: str) -> None:
    assert format_money(amount_minor, currency) == text


@pytest.mark.parametrize(
    ("numerator", "denominator", "rounded"),
    [(1, 2, 1), (3, 2, 2), (5, 2, 3), (49, 100, 0), (50, 100, 1), (0, 7, 0), (7, 7, 1)],
)
def test_halves_are_rounded_up(numerator: int, denominator: int, rounded: int) -> None:
    assert half_up(numerator, denominator) == rounded


@given(_amounts, st.integers(1, 10**12))
def test_half_up_and_ceil_are_exact_for_any_size(numerator: int, denominator: int) -> None:
    exact = Fraction(numerator, denominator)
    assert half_up(numerator, denominator) == math.floor(exact + Fraction(1, 2))
    assert ceil(numerator, denominator) == math.ceil(exact)


def test_ties_go_to_list_order() -> None:
    assert apportion(1, [1, 1, 1]) == [1, 0, 0]
    assert apportion(2, [1, 1, 1]) == [1, 1, 0]
    assert apportion(100, [1, 1, 1]) == [34, 33, 33]
    assert apportion(10, [1, 1, 4]) == [2, 2, 6]


def test_larger_remainders_come_first_in_any_position() -> None:
    assert apportion(10, [3, 3, 1]) == [4, 4, 2]


@given(_amounts, _weights)
def test_parts_sum_to_the_whole_and_stay_within_one_unit_of_their_share(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        exact = Fraction(total * weight, sum(weights))
        assert math.floor(exact) <= part <= math.ceil(exact)


@given(_amounts, _weights)
def test_the_units_left_over_go_to_the_largest_remainders(total: int, weights: list[int]) -> None:
    parts = apportion(total, weights)
    exact = [Fraction(total * weight, sum(weights)) for weight in weights]
    raised = [
        (share % 1, -i) for i, (share, part) in enumerate(zip(exact, parts, strict=True)) if part > math.floor(share)
    ]
    passed = [
        (share % 1, -i) for i, (share, part) in enumerate(zip(exact, parts, strict=True)) if part == math.floor(share)
    ]
    # Compared as (remainder, earlier place): whoever got a unit had a larger one than everyone who did not.
    if raised and passed:
        assert min(raised) > max(passed)


@given(_amounts, _weights, st.integers(1, 1000))
def test_a_split_depends_on_proportions_only(total: int, weights: list[int], factor: int) -> None:
    assert apportion(total, weights) == apportion(total, weights)
    assert apportion(total, weights) == apportion(total, [weight * factor for weight in weights])
