"""Codes and continents of countries, extracted from GeoNames by `python -m tools.extracts`."""

from functools import cache
from importlib import resources
from typing import NamedTuple


class CountryRecord(NamedTuple):
    """`iso` and `iso3` are the codes of ISO 3166-1 with two and three letters."""

    iso: str
    iso3: str
    continent: str
    name: str


@cache
def country_records() -> dict[str, CountryRecord]:
    """By the code with two letters."""
    text = (resources.files("tonne.selling.catalogue") / "country_codes.txt").read_text(encoding="utf-8")
    records = (CountryRecord(*line.split(" ", 3)) for line in text.splitlines())
    return {record.iso: record for record in records}
