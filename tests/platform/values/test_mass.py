"""Grams inside, tonnes in the API."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.values.amounts import GRAMS_PER_UNIT, MAX_GRAMS, MassUnit, format_tonnes, to_grams


@pytest.mark.parametrize(
    ("amount", "unit", "mass_grams"),
    [
        ("1.105697", MassUnit.T, 1_105_697),
        ("184.2", MassUnit.KG, 184_200),
        ("850", MassUnit.G, 850),
        ("100000000", MassUnit.T, MAX_GRAMS),
        ("0", MassUnit.T, 0),
    ],
)
def test_each_unit_is_converted_to_grams(amount: str, unit: MassUnit, mass_grams: int) -> None:
    assert to_grams(Decimal(amount), unit) == mass_grams


@pytest.mark.parametrize(
    ("amount", "unit", "mass_grams"),
    [
        ("0.0000019", MassUnit.T, 1),
        ("0.999999999999", MassUnit.G, 0),
        ("1.9999", MassUnit.KG, 1999),
        ("2.9", MassUnit.G, 2),
    ],
)
def test_fractions_of_a_gram_are_truncated(amount: str, unit: MassUnit, mass_grams: int) -> None:
    assert to_grams(Decimal(amount), unit) == mass_grams


@given(st.decimals(0, 10**15 - 1, places=12, allow_nan=False, allow_infinity=False), st.sampled_from(MassUnit))
def test_truncation_is_exact_for_every_valid_decimal(amount: Decimal, unit: MassUnit) -> None:
    assert to_grams(amount, unit) == math.floor(Fraction(amount) * GRAMS_PER_UNIT[unit])


@pytest.mark.parametrize(
    ("mass_grams", "text"),
    [
        (1_040_000_000, "1040"),
        (1_105_697, "1.105697"),
        (1, "0.000001"),
        (100_000, "0.1"),
        (MAX_GRAMS, "100000000"),
        (0, "0"),
    ],
)
def test_tonnes_are_written_without_trailing_zeros(mass_grams: int, text: str) -> None:
    assert format_tonnes(mass_grams) == text


@given(st.integers(0, MAX_GRAMS))
def test_tonnes_on_the_wire_read_back_as_the_same_grams(mass_grams: int) -> None:
    text = format_tonnes(mass_grams)
    assert to_grams(Decimal(text), MassUnit.T) == mass_grams
    assert "." not in text or (not text.endswith(("0", ".")) and len(text.partition(".")[2]) <= 6)
