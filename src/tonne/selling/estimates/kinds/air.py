"""Emissions of a flight by the UK government's factors: haul, cabin class, radiative forcing, well-to-tank.

Haul, as the publisher defines it: `Domestic` is within the UK, `Short-haul` between the UK and places up to 3,700 km
away, `Long-haul` between the UK and places beyond, `International, to/from non-UK` between other countries. It defines
none for two cases, for which Tonne takes the nearest: a flight within another country is domestic up to 785 km, and
short-haul or long-haul by its distance above; a flight whose airports are not known is short-haul or long-haul.
"""

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum

from msgspec import Struct

from tonne.selling.estimates.calculated import emission_step, plain, split_grams, step
from tonne.selling.estimates.calculated_schemas import ExplainStepOut
from tonne.selling.estimates.factors.model import Factor, FactorSet
from tonne.selling.estimates.kinds.distance import Distance

CATEGORY = "Business travel, air"
UNIT = "person*km"
LONG_HAUL_KM = 3_700
DOMESTIC_KM = 785
# The UK's inventory counts flights to the Crown Dependencies as domestic.
_UK = {"GB", "JE", "GG", "IM"}


class CabinClass(StrEnum):
    ECONOMY = "economy"
    PREMIUM_ECONOMY = "premium_economy"
    BUSINESS = "business"
    FIRST = "first"


class Haul(StrEnum):
    DOMESTIC = "domestic"
    SHORT = "short_haul"
    LONG = "long_haul"
    INTERNATIONAL = "international_non_uk"


PUBLISHED_HAULS = {
    Haul.DOMESTIC: "Domestic, to/from UK",
    Haul.SHORT: "Short-haul, to/from UK",
    Haul.LONG: "Long-haul, to/from UK",
    Haul.INTERNATIONAL: "International, to/from non-UK",
}
AVERAGE = "Average passenger"
_PUBLISHED_CABINS = {
    CabinClass.ECONOMY: "Economy class",
    CabinClass.PREMIUM_ECONOMY: "Premium economy class",
    CabinClass.BUSINESS: "Business class",
    CabinClass.FIRST: "First class",
}
# There are fewer classes on shorter flights. The class that is nearest in size is used, never a smaller one if there
# is a larger one.
_FALLBACKS = {
    Haul.SHORT: {CabinClass.PREMIUM_ECONOMY: CabinClass.BUSINESS, CabinClass.FIRST: CabinClass.BUSINESS},
}


class AirEmissions(Struct, frozen=True):
    """In kilograms. Their sum is the emission; `grams` are the three parts, which add up to the rounded sum."""

    combustion: Decimal
    radiative_forcing: Decimal
    well_to_tank: Decimal
    haul: Haul
    explain: Sequence[ExplainStepOut]
    factors: Sequence[Factor]

    @property
    def kilograms(self) -> Decimal:
        return self.combustion + self.radiative_forcing + self.well_to_tank

    @property
    def grams(self) -> list[int]:
        return split_grams((self.combustion, self.radiative_forcing, self.well_to_tank))


def haul_of(distance: Distance) -> tuple[Haul, str]:
    """The haul, and the reason in words."""
    by_distance = Haul.SHORT if distance.km <= LONG_HAUL_KM else Haul.LONG
    limit = f"{'up to' if by_distance is Haul.SHORT else 'more than'} {LONG_HAUL_KM:,} km"
    if not distance.airports:
        return by_distance, f"The airports are not known; the distance is {limit}"
    source, destination = (airport.country for airport in distance.airports)
    in_uk = [country in _UK for country in (source, destination)]
    if all(in_uk):
        return Haul.DOMESTIC, "Both airports are in the United Kingdom"
    if any(in_uk):
        return by_distance, f"One airport is in the United Kingdom, and the distance is {limit}"
    if source != destination:
        return Haul.INTERNATIONAL, "The airports are in two countries, and none is in the United Kingdom"
    if distance.km <= DOMESTIC_KM:
        return Haul.DOMESTIC, f"Both airports are in one country, and the distance is up to {DOMESTIC_KM} km"
    return by_distance, f"Both airports are in one country, and the distance is {limit}"


def air_emissions(distance: Distance, cabin: CabinClass | None, passengers: int, factors: FactorSet) -> AirEmissions:
    haul, reason = haul_of(distance)
    published, note = _cabin(haul, cabin)
    with_rf, without_rf = (
        factors.get(CATEGORY, f"Flights / {PUBLISHED_HAULS[haul]} / {published} / {effect} RF", UNIT)
        for effect in ("With", "Without")
    )
    person_km = distance.km * passengers
    forcing = with_rf.kg_per_unit - without_rf.kg_per_unit
    fuel = with_rf.well_to_tank or Decimal(0)
    combustion = person_km * without_rf.kg_per_unit
    amounts = (f"{plain(person_km)} person*km",)
    people = "1 passenger" if passengers == 1 else f"{passengers} passengers"
    explain = [
        step(f"{reason}: the factors are “{PUBLISHED_HAULS[haul]}”, “{published}”.{note}", f"haul = {haul}"),
        step("Passengers", f"{plain(distance.km)} km × {people} = {plain(person_km)} person*km", person_km, UNIT),
        emission_step("Burning the fuel", amounts, without_rf, without_rf.kg_per_unit, combustion),
        emission_step(
            f"Radiative forcing: {plain(with_rf.kg_per_unit)} with it less {plain(without_rf.kg_per_unit)} without it",
            amounts,
            with_rf,
            forcing,
            person_km * forcing,
        ),
        emission_step("Well-to-tank: making and transporting the fuel", amounts, with_rf, fuel, person_km * fuel),
    ]
    return AirEmissions(combustion, person_km * forcing, person_km * fuel, haul, explain, (without_rf, with_rf))


def _cabin(haul: Haul, cabin: CabinClass | None) -> tuple[str, str]:
    """The class as it is published, and a note if another class is used."""
    if cabin is None or haul is Haul.DOMESTIC:
        note = "" if cabin is None else f" For this haul there is no factor for {cabin}."
        return AVERAGE, note
    used = _FALLBACKS.get(haul, {}).get(cabin, cabin)
    note = "" if used is cabin else f" For this haul there is no factor for {cabin}: {used} is used."
    return _PUBLISHED_CABINS[used], note
