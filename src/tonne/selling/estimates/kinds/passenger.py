"""Estimates of journeys of one leg or several: by car, motorcycle, train or plane."""

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.http.client_fields import IdempotencyKey, Metadata
from tonne.platform.values.context import Timestamp
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.estimates.calculated import (
    Annotations,
    Calculated,
    EstimateKind,
    emission_step,
    mass_out,
    plain,
    split_grams,
    step,
)
from tonne.selling.estimates.calculated_schemas import (
    AS_SENT,
    CalculatedOut,
    CommonIn,
    EstimateMassOut,
    ExplainStepOut,
    Moment,
)
from tonne.selling.estimates.factors.model import Factor, FactorSet
from tonne.selling.estimates.factors.schemas import EmissionFactorOut, factor_out
from tonne.selling.estimates.geography.errors import (
    AddressNotFound,
    DestinationCodeInvalid,
    LocodeNotFound,
    SourceCodeInvalid,
)
from tonne.selling.estimates.geography.great_circle import great_circle_km
from tonne.selling.estimates.geography.inland_distance import DETOUR, with_detour
from tonne.selling.estimates.geography.model import Location
from tonne.selling.estimates.geography.places import Airport, PlaceIn, resolve_place
from tonne.selling.estimates.kinds.air import air_emissions
from tonne.selling.estimates.kinds.distance import Distance, DistanceMethod, DistanceOut, DistanceUnit, given_distance
from tonne.selling.estimates.kinds.errors import DistanceInvalid, RouteRequired
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
    request: Annotated[PassengerTransportationEstimateIn, AS_SENT]
    legs: Annotated[list[JourneyLegOut], Meta(description="The legs in their order. Their masses add up to `mass`.")]
    is_passenger_transportation: Annotated[
        bool, Meta(description="Whether somebody has really travelled.", examples=[True])
    ]
    passenger_transportation_travelled_at: Annotated[
        Timestamp | None, Meta(description="When they travelled, or null.")
    ]


CATEGORY = "Business travel, land"
_CAR = "Cars (by market segment) / {} / Unknown"
VEHICLES = {
    VehicleType.CAR_MINI: _CAR.format("Mini"),
    VehicleType.CAR_SUPERMINI: _CAR.format("Supermini"),
    VehicleType.CAR_LOWER_MEDIUM: _CAR.format("Lower medium"),
    VehicleType.CAR_UPPER_MEDIUM: _CAR.format("Upper medium"),
    VehicleType.CAR_EXECUTIVE: _CAR.format("Executive"),
    VehicleType.CAR_LUXURY: _CAR.format("Luxury"),
    VehicleType.CAR_SPORTS: _CAR.format("Sports"),
    VehicleType.CAR_DUAL_PURPOSE_4X4: _CAR.format("Dual purpose 4X4"),
    VehicleType.CAR_MPV: _CAR.format("MPV"),
    VehicleType.MOTORCYCLE_SMALL: "Motorbike / Small",
    VehicleType.MOTORCYCLE_MEDIUM: "Motorbike / Medium",
    VehicleType.MOTORCYCLE_LARGE: "Motorbike / Large",
    VehicleType.MOTORCYCLE_AVERAGE: "Motorbike / Average",
}
RAILWAYS = {
    RailType.NATIONAL_RAIL: "Rail / National rail",
    RailType.INTERNATIONAL_RAIL: "Rail / International rail",
    RailType.LIGHT_RAIL_OR_TRAM: "Rail / Light rail and tram",
}


class _Leg(msgspec.Struct, frozen=True):
    """`grams` are the direct emissions and those of making the fuel."""

    grams: tuple[int, int]
    distance: Distance
    explain: Sequence[ExplainStepOut]
    factors: Sequence[Factor]
    # The one that is shown.
    factor: Factor

    @property
    def shown(self) -> JourneyLegOut:
        return JourneyLegOut(
            mass_out(sum(self.grams)),
            mass_out(self.grams[1]),
            self.distance.out,
            self.distance.method,
            factor_out(self.factor),
        )


def calculate_journey(request: PassengerTransportationEstimateIn, factors: FactorSet) -> Calculated:
    legs = [_leg(leg, request.passengers or 1, factors, f"legs[{i}]") for i, leg in enumerate(request.legs)]
    explain = [
        msgspec.structs.replace(each, description=f"Leg {number}: {each.description}")
        for number, leg in enumerate(legs, 1)
        for each in leg.explain
    ]
    total = sum(sum(leg.grams) for leg in legs)
    masses = " + ".join(mass_out(sum(leg.grams)).amount for leg in legs)
    explain.append(
        step(
            "Sum of the legs, each rounded to the gram",
            f"{masses} = {mass_out(total).amount} kg",
            Decimal(total) / 1000,
            "kg",
        )
    )
    used = {factor.id: factor for leg in legs for factor in leg.factors}
    return Calculated(total, explain, tuple(used.values()), {"legs": [leg.shown for leg in legs]})


def _leg(leg: JourneyLegIn, passengers: int, factors: FactorSet, field: str) -> _Leg:
    ways = [name for name in ("vehicle_type", "rail_type", "cabin_class") if getattr(leg, name) is not None]
    if len(ways) != 1:
        message = f"{field} needs exactly one of vehicle_type, rail_type and cabin_class."
        raise Invalid([Fault("validation_error", message, field)])
    distance = _distance(leg.route, f"{field}.route", by_air=leg.cabin_class is not None)
    if leg.cabin_class is not None:
        air = air_emissions(distance, leg.cabin_class, passengers, factors)
        combustion, forcing, fuel = air.grams
        return _Leg(
            (combustion + forcing, fuel), distance, (distance.explain, *air.explain), air.factors, air.factors[-1]
        )
    if leg.rail_type is not None:
        factor = factors.get(CATEGORY, RAILWAYS[leg.rail_type], "person*km")
        amount, unit = distance.km * passengers, "person*km"
        count = f"{plain(distance.km)} km × {passengers} passenger{'' if passengers == 1 else 's'}"
        counted = step("Passengers", f"{count} = {plain(amount)} {unit}", amount, unit)
    else:
        factor = factors.get(CATEGORY, VEHICLES[leg.vehicle_type or VehicleType.CAR_MINI], "km")
        amount, unit = distance.km, "km"
        counted = step("The whole vehicle counts, for any number of passengers", f"{plain(amount)} km", amount, unit)
    fuel_value = factor.well_to_tank or Decimal(0)
    parts = (amount * factor.kg_per_unit, amount * fuel_value)
    amounts = (f"{plain(amount)} {unit}",)
    explain = (
        distance.explain,
        counted,
        emission_step(factor.activity, amounts, factor, factor.kg_per_unit, parts[0]),
        emission_step("Well-to-tank: making and transporting the fuel", amounts, factor, fuel_value, parts[1]),
    )
    direct, making = split_grams(parts)
    return _Leg((direct, making), distance, explain, (factor,), factor)


def _distance(route: JourneyRouteIn, field: str, *, by_air: bool) -> Distance:
    has_places = route.source is not None or route.destination is not None
    if route.amount is not None and route.unit is not None and not has_places:
        return given_distance(route.amount, route.unit, field)
    if route.source is None or route.destination is None or route.amount is not None or route.unit is not None:
        raise RouteRequired(
            "Send a route: source and destination, each as code, lat and lon, or city and country_code, or a distance "
            "with amount and unit.",
            field=field,
        )
    source = resolve_place(route.source, f"{field}.source")
    destination = resolve_place(route.destination, f"{field}.destination")
    straight = great_circle_km(source.coordinates, destination.coordinates)
    if not straight:
        raise DistanceInvalid("Source and destination are the same place. Send two places.", field=field)
    names = f"from {_label(source)} to {_label(destination)}"
    if by_air:
        explain = step(
            f"Great circle {names}. The emission factors include detours, so none is added.",
            f"great circle = {plain(straight)} km",
            straight,
            "km",
        )
        return Distance(straight, DistanceMethod.GREAT_CIRCLE, explain, _ends(source, destination))
    km = with_detour(straight)
    explain = step(
        f"Great circle {names}, lengthened by the detours of roads and railways: {plain(DETOUR)} is an assumption of "
        "Tonne.",
        f"{plain(straight)} km × {plain(DETOUR)} = {plain(km)} km",
        km,
        "km",
    )
    return Distance(km, DistanceMethod.INLAND, explain)


def _ends(*places: Location) -> Sequence[Airport]:
    """The haul of a flight depends on the countries. Without both it is chosen by the distance."""
    found = [Airport("", each.label or "", each.country, each.coordinates) for each in places if each.country]
    return found if len(found) == len(places) else ()


def _label(place: Location) -> str:
    return place.label or f"{place.coordinates.lat}, {place.coordinates.lon}"


PASSENGER_TRANSPORTATION = EstimateKind(
    name="passenger-transportation",
    noun="a journey",
    about="One leg or several, by car, motorcycle, train or plane. Trains and planes are calculated per passenger, "
    "cars and motorcycles as a whole.",
    operation="PassengerTransportationEstimate",
    parameter="passenger_transportation_estimate_id",
    request=PassengerTransportationEstimateIn,
    answer=PassengerTransportationEstimateOut,
    calculate=calculate_journey,
    errors=(RouteRequired, DistanceInvalid, AddressNotFound, LocodeNotFound, SourceCodeInvalid, DestinationCodeInvalid),
    example={
        "legs": [
            {"route": {"amount": "20", "unit": "km"}, "vehicle_type": "car_lower_medium"},
            {
                "route": {
                    "source": {"city": "Berlin", "country_code": "DEU"},
                    "destination": {"city": "Hamburg", "country_code": "DEU"},
                },
                "rail_type": "national_rail",
            },
        ],
        "passengers": 1,
    },
    annotations=Annotations(
        "is_passenger_transportation", "passenger_transportation_travelled_at", PassengerAnnotationsIn
    ),
    in_thread=True,
)
