"""Countries of projects: catalogues hold the code of a country or its English name.

Codes and continents were extracted from GeoNames by `python -m tools.extracts`.
"""

from functools import cache
from importlib import resources
from typing import NamedTuple

from tonne.platform.web import visitor
from tonne_verify.serials.facts import country_records, other_names, plain_name

_CONTINENTS = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}


class Country(NamedTuple):
    """`code` is the ISO code of three letters. Code and continent are empty for an unknown country.

    `latitude` and `longitude` are those of its middle; 0 for an unknown country.
    """

    code: str
    name: str
    continent: str
    latitude: float = 0.0
    longitude: float = 0.0


def country_code(country: str) -> str:
    """The ISO code of two letters; empty for an unknown country."""
    return _codes().get(plain_name(country), "")


def country_of(country: str) -> Country:
    """With the English name. An unknown name stays as it is."""
    code = country_code(country)
    known = country_records().get(code)
    name = str(visitor.DEFAULT.territories.get(code, country))
    if known is None:
        return Country("", name, "")
    return Country(known.iso3, name, _CONTINENTS[known.continent], *_centres().get(code, (0.0, 0.0)))


@cache
def _codes() -> dict[str, str]:
    named = {code: str(name) for code, name in visitor.DEFAULT.territories.items() if len(code) == 2 and code.isalpha()}
    by_name = {plain_name(name): code for code, name in named.items()}
    return by_name | other_names() | {code.casefold(): code for code in named}


@cache
def _centres() -> dict[str, tuple[float, float]]:
    lines = [line.split() for line in _lines("country_centres.txt") if not line.startswith("#")]
    return {code: (float(latitude), float(longitude)) for code, latitude, longitude in lines}


def _lines(file: str) -> list[str]:
    return (resources.files("tonne.selling.catalogue") / file).read_text(encoding="utf-8").splitlines()
