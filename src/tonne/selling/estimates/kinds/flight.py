"""Estimates of flights."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.selling.estimates.calculated import Calculated, EstimateKind, mass_out, plain, step, to_grams
from tonne.selling.estimates.calculated_schemas import AS_SENT, CalculatedOut, CommonIn, EstimateMassOut
from tonne.selling.estimates.factors.model import FactorSet
from tonne.selling.estimates.geography.places import load_airports
from tonne.selling.estimates.kinds.air import CabinClass, Haul, air_emissions
from tonne.selling.estimates.kinds.distance import AirRouteIn, DistanceMethod, DistanceOut, air_distance
from tonne.selling.estimates.kinds.errors import AirportInvalid, DistanceInvalid, RouteRequired

MAX_PASSENGERS = 100_000
Passengers = Annotated[
    Annotated[int, Meta(ge=1, le=MAX_PASSENGERS)] | None,
    Meta(description="How many people travel. One if it is left out.", examples=[1]),
]
Cabin = Annotated[
    CabinClass | None,
    Meta(description="Left out: the average of all classes.", examples=["economy"]),
]


class FlightEstimateIn(CommonIn, forbid_unknown_fields=True, kw_only=True):
    route: Annotated[AirRouteIn, Meta(description="Two airports, or a distance.")]
    cabin_class: Cabin = None
    passengers: Passengers = None


class FlightBreakdownOut(msgspec.Struct):
    """The parts of `mass`. They add up to it."""

    combustion: Annotated[EstimateMassOut, Meta(description="Burning the fuel.")]
    radiative_forcing: Annotated[EstimateMassOut, Meta(description="Further warming by contrails and ozone.")]
    well_to_tank: Annotated[EstimateMassOut, Meta(description="Making and transporting the fuel.")]


class FlightEstimateOut(CalculatedOut, kw_only=True):
    request: Annotated[FlightEstimateIn, AS_SENT]
    distance: Annotated[DistanceOut, Meta(description="Without detours, which the factors include.")]
    distance_calculation_method: Annotated[
        DistanceMethod, Meta(description="Where the distance comes from.", examples=["great_circle_distance"])
    ]
    haul: Annotated[Haul, Meta(description="The haul by the publisher's definition.", examples=["short_haul"])]
    breakdown: Annotated[FlightBreakdownOut, Meta(description="The parts of `mass`.")]


def calculate_flight(request: FlightEstimateIn, factors: FactorSet) -> Calculated:
    distance = air_distance(request.route, "route")
    emissions = air_emissions(distance, request.cabin_class, request.passengers or 1, factors)
    parts = (emissions.combustion, emissions.radiative_forcing, emissions.well_to_tank)
    total = step(
        "Sum, rounded to the gram",
        f"{' + '.join(plain(part, 6) for part in parts)} = {mass_out(to_grams(emissions.kilograms)).amount} kg",
        emissions.kilograms,
        "kg",
    )
    return Calculated(
        sum(emissions.grams),
        (distance.explain, *emissions.explain, total),
        emissions.factors,
        {
            "distance": distance.out,
            "distance_calculation_method": distance.method,
            "haul": emissions.haul,
            "breakdown": FlightBreakdownOut(*map(mass_out, emissions.grams)),
        },
    )


FLIGHT = EstimateKind(
    name="flight",
    noun="a flight",
    about="By the great circle between two airports, or by a distance. Radiative forcing and the making of the fuel "
    "are part of the mass, and shown apart.",
    operation="FlightEstimate",
    parameter="flight_estimate_id",
    request=FlightEstimateIn,
    answer=FlightEstimateOut,
    calculate=calculate_flight,
    errors=(AirportInvalid, RouteRequired, DistanceInvalid),
    example={
        "route": {"source": {"code": "BER"}, "destination": {"code": "LIS"}},
        "cabin_class": "economy",
        "passengers": 1,
    },
    prepare=load_airports,
)
