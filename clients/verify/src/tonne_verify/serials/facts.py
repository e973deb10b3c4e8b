"""What a serial says besides its numbers, compared with what somebody states about the units."""

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from tonne_verify.serials.spelling import plain_spelling


class CountryRecord(NamedTuple):
    """`iso` and `iso3` are the codes of ISO 3166-1 with two and three letters."""

    iso: str
    iso3: str
    continent: str
    name: str


def is_project(found: str, project_id: str, serial_project: str | None = None) -> bool:
    """`VCS1340` is project 1340, and `BCR-CO-259-14-002` is `CO-259-14-002`.

    `serial_project` is the name of the project in the serials of its registry, if that is another one.
    """
    known, other = plain_spelling(serial_project or project_id), plain_spelling(found)
    if other.isdigit():
        return re.sub(r"\D", "", known).lstrip("0") == other.lstrip("0")
    return known.removeprefix("BCR").removeprefix("PCR") == other


def is_other_country(found: str, country: str) -> bool:
    """`found` is a code of two or three letters. Countries that are not known cannot be compared."""
    known = country_records().get(_codes().get(plain_name(country), ""))
    return known is not None and found not in {known.iso, known.iso3}


def plain_name(country: str) -> str:
    return " ".join(country.casefold().replace("\u2019", "'").split())


@cache
def country_records() -> dict[str, CountryRecord]:
    """By the code with two letters."""
    records = (CountryRecord(*line.split(" ", 3)) for line in _lines("country_codes.txt"))
    return {record.iso: record for record in records}


@cache
def other_names() -> dict[str, str]:
    """Codes by names that registries use and that differ from the usual ones."""
    return {name: code for code, _, name in (line.partition(" ") for line in _lines("country_other_names.txt"))}


@cache
def _codes() -> dict[str, str]:
    records = country_records().values()
    named = {plain_name(name): each.iso for each in records for name in (each.iso, each.iso3, each.name)}
    return named | other_names()


def _lines(file: str) -> list[str]:
    return (resources.files("tonne_verify.serials") / file).read_text(encoding="utf-8").splitlines()
