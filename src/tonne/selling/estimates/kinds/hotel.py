"""Estimates of nights in hotels."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from tonne.selling.catalogue.countries import country_of
from tonne.selling.estimates.calculated import Calculated, EstimateKind, emission_step, step, to_grams
from tonne.selling.estimates.calculated_schemas import AS_SENT, CalculatedOut, CommonIn
from tonne.selling.estimates.factors.model import Factor, FactorSet
from tonne.selling.estimates.factors.schemas import EmissionFactorOut, factor_out
from tonne.selling.estimates.kinds.electricity import CountryCode
from tonne.selling.estimates.kinds.errors import CountryInvalid

CATEGORY = "Hotel stay"
UNIT = "room*night"
MAX_NIGHTS = 100_000


class HotelEstimateIn(CommonIn, forbid_unknown_fields=True, kw_only=True):
    country_code: Annotated[CountryCode, Meta(description="Country of the hotel.")]
    nights: Annotated[int, Meta(ge=1, le=MAX_NIGHTS, description="How many nights.", examples=[3])]
    rooms: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_NIGHTS)] | None,
        Meta(description="How many rooms. One if it is left out.", examples=[1]),
    ] = None


class HotelEstimateOut(CalculatedOut, kw_only=True):
    request: Annotated[HotelEstimateIn, AS_SENT]
    emission_factor: Annotated[EmissionFactorOut, Meta(description="The factor of a room and a night.")]


def calculate_hotel(request: HotelEstimateIn, factors: FactorSet) -> Calculated:
    rooms, nights = request.rooms or 1, request.nights
    factor = hotel_factor(request.country_code, factors)
    room_nights = f"{rooms * nights} room*night"
    kilograms = factor.kg_per_unit * rooms * nights
    explain = (
        step("Rooms and nights", f"{rooms} room{'' if rooms == 1 else 's'} × {nights} nights = {room_nights}"),
        emission_step(factor.activity, (room_nights,), factor, factor.kg_per_unit, kilograms),
    )
    return Calculated(to_grams(kilograms), explain, (factor,), {"emission_factor": factor_out(factor)})


def hotel_factor(country_code: str, factors: FactorSet) -> Factor:
    """An imported factor of the region itself comes first."""
    by_country = hotel_factors(factors)
    found = max(
        by_country.get(country_code, []), key=lambda each: (each.region == country_code, each.year), default=None
    )
    if found is None:
        raise CountryInvalid(
            f"There is no emission factor for hotels in {country_code}. There are factors for "
            f"{', '.join(sorted(by_country))}: send the one of a similar country.",
            field="country_code",
        )
    return found


def hotel_factors(factors: FactorSet) -> Mapping[str, Sequence[Factor]]:
    """By the code of the country. The UK government publishes hotels abroad under the names of the countries."""
    by_country: defaultdict[str, list[Factor]] = defaultdict(list)
    for each in factors.latest_of(CATEGORY, UNIT):
        named = country_of(each.activity.removeprefix(f"{CATEGORY} / ")).code
        region = None if each.region == "GBR" else each.region
        for code in filter(None, {named, region}):
            by_country[code].append(each)
    return by_country


HOTEL = EstimateKind(
    name="hotel",
    noun="nights in a hotel",
    about="By country, per room and night.",
    operation="HotelEstimate",
    parameter="hotel_estimate_id",
    request=HotelEstimateIn,
    answer=HotelEstimateOut,
    calculate=calculate_hotel,
    errors=(CountryInvalid,),
    example={"country_code": "PRT", "nights": 3, "rooms": 1},
)
