"""Largest remainder: nothing is lost, and no part is off by a minor unit."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.base.apportion import apportion

amounts = st.integers(0, 10**15)
weights = st.lists(st.integers(0, 10**12), min_size=1, max_size=50)


@given(amounts, weights)
def test_the_parts_sum_to_the_total(total: int, shares: list[int]) -> None:
    parts = apportion(total, shares)
    assert sum(parts) == total
    assert len(parts) == len(shares)


@given(amounts, weights)
def test_no_part_is_off_by_a_minor_unit(total: int, shares: list[int]) -> None:
    whole = sum(shares) or len(shares)
    for part, share in zip(apportion(total, shares), shares, strict=True):
        exact = Fraction(total * (share if sum(shares) else 1), whole)
        assert abs(part - exact) < 1


@given(amounts, weights)
def test_a_larger_weight_never_gets_less(total: int, shares: list[int]) -> None:
    parts = apportion(total, shares)
    by_weight = sorted(zip(shares, parts, strict=True))
    for (smaller, low), (larger, high) in pairwise(by_weight):
        assert smaller == larger or low <= high


@given(amounts, weights)
def test_what_weighs_nothing_gets_nothing(total: int, shares: list[int]) -> None:
    if sum(shares):
        assert all(part == 0 for part, share in zip(apportion(total, shares), shares, strict=True) if share == 0)


def test_examples() -> None:
    assert apportion(100, [1, 1, 1]) == [34, 33, 33]
    assert apportion(10, [0, 0]) == [5, 5]
    assert apportion(0, []) == []
    assert apportion(19, [10, 89, 1]) == [2, 17, 0]


@pytest.mark.parametrize(("total", "shares"), [(-1, [1]), (1, [-1, 2]), (1, [])])
def test_impossible_divisions_are_refused(total: int, shares: list[int]) -> None:
    with pytest.raises(ValueError, match=r"negative|no part"):
        apportion(total, shares)
