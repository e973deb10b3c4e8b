"""Units of activities."""

from decimal import Decimal

import pytest

from tonne.selling.estimates.factors.errors import UnitInvalid, UnitMismatch
from tonne.selling.estimates.factors.units import convert, measures, parse_unit


@pytest.mark.parametrize(
    ("written", "unit", "measured"),
    [
        ("passenger.km", "person*km", "person-distance"),
        ("tonne.km", "t*km", "mass-distance"),
        ("miles", "mi", "distance"),
        ("Room per night", "room*night", "room-time"),
        ("per FTE Working Hour", "fte*working_hour", "fte-time"),
        ("kWh", "kWh", "energy"),
        ("TEU*km", "TEU*km", "container-distance"),
        ("EUR", "EUR", "currency"),
    ],
)
def test_units_are_read_as_publishers_write_them(written: str, unit: str, measured: str) -> None:
    assert (parse_unit(written), measures(unit)) == (unit, measured)


def test_units_that_measure_the_same_are_converted_exactly() -> None:
    assert convert(Decimal(10), "person*mi", "person*km") == Decimal("16.09344")
    assert convert(Decimal(3), "MWh", "kWh") == 3000
    assert convert(Decimal(2), "km*t", "t*km") == 2
    assert convert(Decimal(1), "lb", "kg") == Decimal("0.45359237")
    assert convert(Decimal(5), "vehicle*km", "km") == 5


@pytest.mark.parametrize(("unit", "to"), [("kWh", "km"), ("person*km", "km"), ("EUR", "USD"), ("room*night", "night")])
def test_other_units_are_not_mixed_up(unit: str, to: str) -> None:
    with pytest.raises(UnitMismatch, match=f"per {to}".replace("*", r"\*")):
        convert(Decimal(1), unit, to)


@pytest.mark.parametrize("text", ["", "furlong", "km**99999999", "km*km*km*km", "1e9", "km; import os"])
def test_nothing_else_is_parsed(text: str) -> None:
    with pytest.raises(UnitInvalid):
        parse_unit(text)
