"""Emission factors: how much CO2 equivalent one unit of an activity causes."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import NamedTuple

import msgspec

from tonne.selling.estimates.factors.units import measures

UK = "GBR"
WORLD = "WLD"


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a factor, in kilograms of CO2 equivalent per `unit`.

    `well_to_tank` is what making and transporting the fuel causes; None if it is not published, or part of the factor.
    A version never changes: an import that changes a factor adds a version.
    """

    id: str
    version: int
    category: str
    activity: str
    unit: str
    kg_per_unit: Decimal
    well_to_tank: Decimal | None
    # ISO 3166 alpha-3, or WLD.
    region: str
    year: int
    # The publication, and its short code: `beis` for factors of the UK government.
    source: str
    source_code: str
    licence: str
    created_at: datetime


class FactorSearch(NamedTuple):
    """What a factor must match. Empty means any."""

    name: str = ""
    sources: frozenset[str] = frozenset()
    years: frozenset[int] = frozenset()
    regions: frozenset[str] = frozenset()
    measured: frozenset[str] = frozenset()


class FactorSet:
    """The latest version of every factor.

    Later editions have ids of their own: `find` returns the factor of the latest year for an activity, so that a new
    edition is used as soon as it is imported.
    """

    def __init__(self, factors: Iterable[Factor]) -> None:
        latest: dict[str, Factor] = {}
        for factor in factors:
            known = latest.get(factor.id)
            if known is None or known.version < factor.version:
                latest[factor.id] = factor
        self.all: Sequence[Factor] = sorted(latest.values(), key=attrgetter("id"))
        self.by_id = latest
        self._by_activity: dict[tuple[str, str, str, str], Factor] = {}
        for factor in self.all:
            key = (factor.category, factor.activity, factor.unit, factor.region)
            known = self._by_activity.get(key)
            if known is None or known.year < factor.year:
                self._by_activity[key] = factor

    def find(self, category: str, activity: str, unit: str, region: str = UK) -> Factor | None:
        return self._by_activity.get((category, activity, unit, region))

    def get(self, category: str, activity: str, unit: str, region: str = UK) -> Factor:
        """A factor for an activity that the package ships one for. Imports add factors, and never remove one."""
        return self._by_activity[category, activity, unit, region]

    def latest_of(self, category: str, unit: str) -> list[Factor]:
        """The factor of the latest year for every activity and region of a category."""
        return [each for each in self._by_activity.values() if each.category == category and each.unit == unit]

    def search(self, filters: FactorSearch, after: str, limit: int) -> list[Factor]:
        """In the order of their ids, from the one after `after`."""
        words = filters.name.casefold().split()
        found = []
        for factor in self.all:
            if factor.id > after and _matches(factor, filters, words):
                found.append(factor)
                if len(found) == limit:
                    break
        return found

    @property
    def regions(self) -> list[str]:
        return sorted({factor.region for factor in self.all})


def _matches(factor: Factor, filters: FactorSearch, words: Sequence[str]) -> bool:
    if filters.sources and factor.source_code not in filters.sources:
        return False
    if (filters.years and factor.year not in filters.years) or (
        filters.regions and factor.region not in filters.regions
    ):
        return False
    if filters.measured and measures(factor.unit) not in filters.measured:
        return False
    text = f"{factor.activity} {factor.category} {factor.id}".casefold() if words else ""
    return all(word in text for word in words)
