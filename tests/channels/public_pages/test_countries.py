"""Countries of projects on the map."""

from datetime import date

import pytest
from babel import Locale

from tonne.channels.public_pages.figures.figures import MAP_HEIGHT, MAP_WIDTH, country_name, place_of, years_text
from tonne.platform.web.charts import month_axis
from tonne.platform.web.render import asset
from tonne.selling.catalogue.countries import country_code


@pytest.mark.parametrize(
    ("country", "code"),
    [
        ("Kenya", "KE"),
        ("ke", "KE"),
        (" united  states ", "US"),
        ("Viet Nam", "VN"),
        ("Côte d’Ivoire", "CI"),
        ("Mars", ""),
    ],
)
def test_countries_are_found_by_code_and_by_name(country: str, code: str) -> None:
    assert country_code(country) == code
    place = place_of(country)
    assert (place is not None) == bool(code)
    if place is not None:
        assert 0 < place[0] < MAP_WIDTH
        assert 0 < place[1] < MAP_HEIGHT


def test_names_are_in_the_visitors_language() -> None:
    assert [country_name(name, Locale("de")) for name in ("KE", "United States", "Mars")] == [
        *("Kenia", "Vereinigte Staaten", "Mars"),
    ]


def test_the_map_is_small_and_has_the_size_of_the_places() -> None:
    world = asset("world.svg")
    assert world is not None
    assert len(world.plain) < 10_000
    assert f'viewBox="0 0 {MAP_WIDTH} {MAP_HEIGHT}"'.encode() in world.plain


def test_vintages_are_joined_to_ranges() -> None:
    assert years_text([2021, 2019, 2020, 2023, 2019]) == "2019–2021, 2023"


def test_a_year_is_labelled_unless_the_next_one_is_close() -> None:
    days = [date(2025, 11, 1), date(2025, 12, 1), *(date(2026, month, 1) for month in range(1, 13))]
    axis = month_axis(days, ["Nov"] * len(days))
    assert [label.text for label in axis.years] == ["2025", "2026"]
    assert [label.text for label in month_axis(days[1:], ["Nov"] * 13).years] == ["2026"]
