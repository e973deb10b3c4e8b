"""Masses as people read them."""

import pytest
from babel import Locale
from hypothesis import given, settings
from hypothesis import strategies as st

from tonne.platform.web.visitor import DEFAULT, aligned, compact_money, exact, rounded, tonnes, tonnes_column

SPACE = "\u00a0"


@pytest.mark.parametrize(
    ("grams", "shown"),
    [
        (0, "0 t"),
        (1, "0.001 kg"),
        (63_423, "63.4 kg"),
        (634_231, "634 kg"),
        (999_499, "999 kg"),
        (999_500, "1 t"),
        (1_000_000, "1 t"),
        (1_105_697, "1.11 t"),
        (12_400_000, "12.4 t"),
        (1_085_285_248, "1,085 t"),
        (123_456_789_012, "123,457 t"),
    ],
)
def test_a_mass_has_three_significant_digits_and_is_in_kilograms_below_a_tonne(grams: int, shown: str) -> None:
    assert rounded(grams, DEFAULT).replace(SPACE, " ") == shown


def test_the_exact_mass_is_in_the_title() -> None:
    assert tonnes(1_085_285_248, DEFAULT).replace(SPACE, " ") == '<span title="1,085.285248 t">1,085 t</span>'
    assert exact(1_085_285_248, Locale("de")).replace(SPACE, " ") == "1.085,285248 t"
    assert rounded(1_105_697, Locale("de")).replace(SPACE, " ") == "1,11 t"


def test_a_column_has_one_unit_and_leaves_out_what_is_not_known() -> None:
    cells = [cell.striptags().replace(SPACE, " ") for cell in tonnes_column([63_423, None, 12_400_000], DEFAULT)]
    assert cells == ["0.1 t", "", "12.4 t"]


def test_amounts_on_a_scale_are_short() -> None:
    assert [compact_money(minor, "EUR", DEFAULT) for minor in (160_000_000, 120_000, 6_000)] == [
        "€1.6M",
        "€1.2K",
        "€60.00",
    ]


@settings(max_examples=25)
@given(st.integers(1, 10**17))
def test_rounding_changes_a_mass_by_half_a_per_cent_at_most(grams: int) -> None:
    number, _, unit = rounded(grams, DEFAULT).partition(SPACE)
    thousandths = round(float(number.replace(",", "")) * (1_000 if unit == "kg" else 1_000_000))
    assert abs(thousandths - grams) <= grams / 200 + 1


def test_a_column_has_one_unit_and_one_number_of_decimals() -> None:
    def column(*grams: int) -> list[str]:
        return [text.replace(SPACE, " ") for text in aligned(grams, DEFAULT)]

    assert column(1_085_285_248, 63_423, 12_400_000) == ["1,085 t", "<\u20091 t", "12 t"]
    assert column(5_200_000, 12_345, 0) == ["5.20 t", "0.01 t", "0.00 t"]
    assert column(63_423, 5_000) == ["63.4 kg", "5.0 kg"]
    assert column(0) == ["0 kg"]
    assert column() == []
