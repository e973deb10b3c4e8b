"""Estimates of nights in hotels."""

from typing import Annotated

from msgspec import Meta

from tonne.selling.estimates.calculated import Calculated, EstimateKind, emission_step, step, to_grams
from tonne.selling.estimates.calculated_schemas import AS_SENT, CalculatedOut, CommonIn
from tonne.selling.estimates.factors.model import Factor, FactorSet
from tonne.selling.estimates.factors.schemas import EmissionFactorOut, factor_out
from tonne.selling.estimates.kinds.electricity import CountryCode
from tonne.selling.estimates.kinds.errors import CountryInvalid

CATEGORY = "Hotel stay"
UNIT = "room*night"
MAX_NIGHTS = 100_000
# The UK government publishes hotels abroad under the names of the countries.
PUBLISHED_NAMES = {
    "GBR": "UK",
    "AUS": "Australia",
    "BEL": "Belgium",
    "BRA": "Brazil",
    "CAN": "Canada",
    "CHL": "Chile",
    "CHN": "China",
    "COL": "Colombia",
    "CRI": "Costa Rica",
    "EGY": "Egypt",
    "FRA": "France",
    "DEU": "Germany",
    "HKG": "Hong Kong, China",
    "IND": "India",
    "IDN": "Indonesia",
    "ITA": "Italy",
    "JPN": "Japan",
    "JOR": "Jordan",
    "KOR": "Korea",
    "MYS": "Malaysia",
    "MDV": "Maldives",
    "MEX": "Mexico",
    "NLD": "Netherlands",
    "OMN": "Oman",
    "PHL": "Philippines",
    "PRT": "Portugal",
    "QAT": "Qatar",
    "RUS": "Russian Federation",
    "SAU": "Saudi Arabia",
    "SGP": "Singapore",
    "ZAF": "South Africa",
    "ESP": "Spain",
    "CHE": "Switzerland",
    "THA": "Thailand",
    "TUR": "Turkey",
    "ARE": "United Arab Emirates",
    "USA": "United States",
    "VNM": "Vietnam",
}


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
    published = factors.latest_of(CATEGORY, UNIT)
    name = f"{CATEGORY} / {PUBLISHED_NAMES.get(country_code)}"
    of_region = [each for each in published if each.region == country_code and country_code != "GBR"]
    of_name = [each for each in published if each.activity == name]
    found = max((*of_region, *of_name), key=lambda each: (each.region == country_code, each.year), default=None)
    if found is None:
        raise CountryInvalid(
            f"There is no emission factor for hotels in {country_code}. There are factors for "
            f"{', '.join(sorted(PUBLISHED_NAMES))}: send the one of a similar country.",
            field="country_code",
        )
    return found


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
