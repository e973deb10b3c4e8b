"""Codes of countries, and the landmasses on which they are."""

from functools import cache

from tonne_verify.serials.facts import CountryRecord, country_records

# Between them there is no road and no railway.
_LANDMASSES = {"EU": "Afro-Eurasia", "AS": "Afro-Eurasia", "AF": "Afro-Eurasia", "NA": "Americas", "SA": "Americas"}


@cache
def _countries() -> dict[str, CountryRecord]:
    """By both codes. They have different lengths."""
    return {code: country for country in country_records().values() for code in (country.iso, country.iso3)}


def find_country(code: str) -> CountryRecord | None:
    """By ISO 3166-1 alpha-2 or alpha-3 code, in any case."""
    return _countries().get(code.upper())


def alpha_3(code: str | None) -> str | None:
    """The alpha-3 code, or None if the country is not known."""
    country = None if code is None else find_country(code)
    return None if country is None else country.iso3


def alpha_2_codes() -> list[str]:
    return [code for code in _countries() if len(code) == 2]


def are_on_one_landmass(first: str, second: str) -> bool:
    """True also if one of the countries is not known. Tunnels and ferries connect islands with their continent."""
    countries = [find_country(code) for code in (first, second)]
    masses = {_LANDMASSES.get(each.continent, each.continent) for each in countries if each is not None}
    return len(masses) < 2
