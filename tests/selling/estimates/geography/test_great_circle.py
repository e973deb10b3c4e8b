"""Distances between coordinates and airports."""

from decimal import Decimal

from tonne.selling.estimates.geography.great_circle import great_circle_km
from tonne.selling.estimates.geography.model import Coordinates
from tonne.selling.estimates.geography.places import find_airport


def test_great_circles_of_known_length() -> None:
    """A quarter and a half of the circumference, 2 x pi x 6,371.0088 km = 40,030.229 km; and no distance."""
    pole, equator = Coordinates(90, 0), Coordinates(0, 0)
    assert great_circle_km(pole, equator) == Decimal("10007.557")
    assert great_circle_km(equator, Coordinates(0, 180)) == Decimal("20015.114")
    assert great_circle_km(equator, equator) == 0
    # Over the date line: two degrees of the equator, 40,030.229 / 180 km.
    assert great_circle_km(Coordinates(0, 179), Coordinates(0, -179)) == Decimal("222.390")


def test_airports_are_found_by_both_codes() -> None:
    berlin = find_airport("ber")
    assert berlin is not None
    assert berlin == find_airport("EDDB")
    assert (berlin.code, berlin.country) == ("BER", "DE")
    assert find_airport("") is None
    assert find_airport("ZZZZ") is None
