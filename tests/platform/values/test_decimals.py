"""Decimals as text are bounded and exact."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.values.amounts import format_scaled, parse_decimal, scaled


@pytest.mark.parametrize(
    "text", ["0", "1", "1.105697", "007", "0.000000000001", "999999999999999", "999999999999999.999999999999"]
)
def test_plain_decimals_are_parsed_exactly(text: str) -> None:
    assert parse_decimal(text) == Decimal(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "1 ", " 1", "1\n", "+1", "-1", "-0", ".5", "5.", "1.2.3", "1,5", "1_000", "0x10", "1e3", "1E-3"),
        *("NaN", "nan", "Infinity", "inf", "1e999", "٣", "１", "1\u0663", "²", "½", "1\x00", "1 000", "\ud800"),
        *("1" * 16, "1" * 40, "1." + "0" * 13, "9" * 100_000),
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    assert parse_decimal(text) is None


@given(st.decimals(0, 10**15 - 1, places=12, allow_nan=False, allow_infinity=False))
def test_scaling_keeps_every_digit_or_refuses(number: Decimal) -> None:
    for digits in (0, 2, 3, 6, 12):
        exact = Fraction(number) * 10**digits
        assert scaled(number, digits) == (exact.numerator if exact.denominator == 1 else None)


def test_trailing_zeros_beyond_the_scale_lose_nothing() -> None:
    assert scaled(Decimal("7176.000"), 2) == 717_600
    assert scaled(Decimal("7176.001"), 2) is None
    assert scaled(Decimal(5), 0) == 5
    assert scaled(Decimal("5.5"), 0) is None


@pytest.mark.parametrize(
    ("whole", "digits", "text"),
    [
        (717_600, 2, "7176.00"),
        (7176, 0, "7176"),
        (1, 3, "0.001"),
        (0, 2, "0.00"),
        (10, 1, "1.0"),
        (12_345, 6, "0.012345"),
        (-5, 2, "-0.05"),
        (-12_345, 2, "-123.45"),
        (-7, 0, "-7"),
    ],
)
def test_integers_are_formatted_with_the_given_decimals(whole: int, digits: int, text: str) -> None:
    assert format_scaled(whole, digits) == text


@given(st.integers(0, 10**18), st.integers(0, 6))
def test_formatting_and_scaling_are_inverse(whole: int, digits: int) -> None:
    assert scaled(Decimal(format_scaled(whole, digits)), digits) == whole
