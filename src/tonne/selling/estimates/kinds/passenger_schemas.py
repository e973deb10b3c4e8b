"""Request and response bodies of estimates of journeys."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.http.client_fields import IdempotencyKey, Metadata
from tonne.platform.values.context import Timestamp
from tonne.selling.estimates.calculated_schemas import CalculatedOut, CommonIn, EstimateMassOut, Moment
from tonne.selling.estimates.factors.schemas import EmissionFactorOut
from tonne.selling.estimates.geography.places import PlaceIn
from tonne.selling.estimates.kinds.distance import DistanceMethod, DistanceOut, DistanceUnit
from tonne.selling.estimates.kinds.flight import Cabin, Passengers

MAX_LEGS = 50


class VehicleType(StrEnum):
    """Cars by market segment, of any fuel; motorcycles by size."""

    CAR_MINI = "car_mini"
    CAR_SUPERMINI = "car_supermini"
    CAR_LOWER_MEDIUM = "car_lower_medium"
    CAR_UPPER_MEDIUM = "car_upper_medium"
    CAR_EXECUTIVE = "car_executive"
    CAR_LUXURY = "car_luxury"
    CAR_SPORTS = "car_sports"
    CAR_DUAL_PURPOSE_4X4 = "car_dual_purpose_4x4"
    CAR_MPV = "car_mpv"
    MOTORCYCLE_SMALL = "motorcycle_small"
    MOTORCYCLE_MEDIUM = "motorcycle_medium"
    MOTORCYCLE_LARGE = "motorcycle_large"
    MOTORCYCLE_AVERAGE = "motorcycle_average"


class RailType(StrEnum):
    NATIONAL_RAIL = "national_rail"
    INTERNATIONAL_RAIL = "international_rail"
    LIGHT_RAIL_OR_TRAM = "light_rail_or_tram"


class JourneyRouteIn(msgspec.Struct, forbid_unknown_fields=True):
    """Either `source` and `destination`, or `amount` and `unit`."""

    source: Annotated[PlaceIn | None, Meta(description="Where the leg starts.")] = None
    destination: Annotated[PlaceIn | None, Meta(description="Where the leg ends.")] = None
    amount: Annotated[Decimal | None, Meta(description="The distance as a decimal string.", examples=["586"])] = None
    unit: Annotated[DistanceUnit | None, Meta(description="Kilometres, miles or nautical miles.", examples=["km"])] = (
        None
    )


class JourneyLegIn(msgspec.Struct, forbid_unknown_fields=True):
    """A leg needs exactly one of `vehicle_type`, `rail_type` and `cabin_class`."""

    route: Annotated[JourneyRouteIn, Meta(description="Two places, or a distance.")]
    vehicle_type: Annotated[
        VehicleType | None, Meta(description="By car or motorcycle.", examples=["car_lower_medium"])
    ] = None
    rail_type: Annotated[RailType | None, Meta(description="By train or tram.", examples=["national_rail"])] = None
    cabin_class: Annotated[Cabin, Meta(description="By plane, in this class.", examples=["economy"])] = None


_ACTUAL = Meta(description="Whether somebody has really travelled. False if it is left out.", examples=[True])
_TRAVELLED = Meta(
    description="When they travelled; a day is midnight UTC.",
    examples=["2026-11-15T10:00:00Z"],
    extra_json_schema={"format": "date-time"},
)


class PassengerTransportationEstimateIn(CommonIn, forbid_unknown_fields=True, kw_only=True):
    legs: Annotated[
        list[JourneyLegIn], Meta(min_length=1, max_length=MAX_LEGS, description="The legs, one after another.")
    ]
    passengers: Passengers = None
    is_passenger_transportation: Annotated[bool | None, _ACTUAL] = None
    passenger_transportation_travelled_at: Annotated[Moment | None, _TRAVELLED] = None


class PassengerAnnotationsIn(msgspec.Struct, forbid_unknown_fields=True):
    is_passenger_transportation: Annotated[bool | None, _ACTUAL] = None
    passenger_transportation_travelled_at: Annotated[Moment | None, _TRAVELLED] = None
    metadata: Metadata | None = None
    idempotency_key: IdempotencyKey | None = None


class JourneyLegOut(msgspec.Struct):
    mass: Annotated[EstimateMassOut, Meta(description="Emissions of the leg.")]
    well_to_tank: Annotated[EstimateMassOut, Meta(description="The part of `mass` for making the fuel.")]
    distance: Annotated[DistanceOut, Meta(description="The distance that was calculated with.")]
    distance_calculation_method: Annotated[
        DistanceMethod, Meta(description="Where the distance comes from.", examples=["inland_distance_algorithm"])
    ]
    emission_factor: Annotated[EmissionFactorOut | None, Meta(description="The factor of the leg.")]


class PassengerTransportationEstimateOut(CalculatedOut, kw_only=True):
    legs: Annotated[list[JourneyLegOut], Meta(description="The legs in their order. Their masses add up to `mass`.")]
    is_passenger_transportation: Annotated[
        bool, Meta(description="Whether somebody has really travelled.", examples=[True])
    ]
    passenger_transportation_travelled_at: Annotated[
        Timestamp | None, Meta(description="When they travelled, or null.")
    ]
