"""Cities by name, countries by code, distances by road and rail."""

from decimal import Decimal

import pytest

from tonne.selling.estimates.geography.countries import alpha_3, are_on_one_landmass, find_country
from tonne.selling.estimates.geography.great_circle import great_circle_km
from tonne.selling.estimates.geography.inland_distance import with_detour
from tonne.selling.estimates.geography.places import find_city


def test_a_city_is_found_by_any_of_its_names_in_its_country() -> None:
    munich = find_city("  MÜNCHEN ", "DEU")
    assert munich is not None
    assert (munich.label, munich.country) == ("Munich", "DE")
    assert munich.coordinates == pytest.approx((48.137, 11.575), abs=0.01)
    assert find_city("北京", "cn") == find_city("Beijing", "CHN")
    assert find_city("Munich", "ESP") is None
    assert find_city("Munich", "XX") is None
    assert find_city("   ", "DE") is None
    assert find_city("Nowhereville", None) is None


def test_the_largest_city_of_a_name_is_meant() -> None:
    anywhere, in_texas = find_city("Paris", None), find_city("Paris", "USA")
    assert anywhere is not None
    assert in_texas is not None
    assert (anywhere.country, in_texas.country) == ("FR", "US")


def test_countries_have_two_codes() -> None:
    assert alpha_3("gb") == "GBR"
    assert alpha_3(None) is None
    germany = find_country("DEU")
    assert germany is not None
    assert (germany.iso, germany.name) == ("DE", "Germany")
    assert are_on_one_landmass("PT", "CHN")
    assert not are_on_one_landmass("DE", "US")
    # Unknown ones are not refused.
    assert are_on_one_landmass("DE", "XX")


def test_ways_on_land_are_longer_than_the_straight_line() -> None:
    berlin, munich = find_city("Berlin", "DE"), find_city("Munich", "DE")
    assert berlin is not None
    assert munich is not None
    straight = great_circle_km(berlin.coordinates, munich.coordinates)
    # 504 km as the crow flies, 585 km by motorway: the factor of a country with many motorways is lower than 1.4.
    assert straight == pytest.approx(Decimal(504), abs=2)
    assert with_detour(straight) == straight * Decimal("1.4")
