"""Countries of projects: their names in the visitor's language, and their places on the map."""

from functools import cache
from importlib import resources

from babel import Locale

from tonne.selling.catalogue.countries import country_code

# The size of `world.svg`.
MAP_WIDTH, MAP_HEIGHT = 1080, 464


def country_name(country: str, locale: Locale) -> str:
    """Catalogues hold the code of a country or its English name. An unknown name stays as it is."""
    return str(locale.territories.get(country_code(country), country))


def place_of(country: str) -> tuple[int, int] | None:
    """The middle of the country on the map."""
    return _places().get(country_code(country))


@cache
def _places() -> dict[str, tuple[int, int]]:
    text = (resources.files("tonne.channels.public_pages.figures") / "country_places.txt").read_text(encoding="ascii")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {code: (int(x), int(y)) for code, x, y in lines}
