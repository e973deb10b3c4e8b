"""Routes: a distance, or two airports."""

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.selling.catalogue.schemas import DecimalText
from tonne.selling.estimates.calculated import plain, step
from tonne.selling.estimates.calculated_schemas import ExplainStepOut
from tonne.selling.estimates.geography.great_circle import great_circle_km
from tonne.selling.estimates.geography.places import Airport, find_airport
from tonne.selling.estimates.kinds.errors import AirportInvalid, DistanceInvalid, RouteRequired

MAX_KM = 100_000


class DistanceUnit(StrEnum):
    KM = "km"
    MI = "mi"
    NM = "nm"


KM_PER_UNIT = {DistanceUnit.KM: Decimal(1), DistanceUnit.MI: Decimal("1.609344"), DistanceUnit.NM: Decimal("1.852")}


class DistanceMethod(StrEnum):
    GREAT_CIRCLE = "great_circle_distance"
    SEA = "sea_distance_algorithm"
    INLAND = "inland_distance_algorithm"
    USER_INPUT = "user_input"


class AirportIn(msgspec.Struct, forbid_unknown_fields=True):
    code: Annotated[str, Meta(max_length=20, description="IATA or ICAO code of an airport.", examples=["BER"])]


class AirRouteIn(msgspec.Struct, forbid_unknown_fields=True):
    """Either `source` and `destination`, or `amount` and `unit`."""

    source: Annotated[AirportIn | None, Meta(description="Where the flight starts.")] = None
    destination: Annotated[AirportIn | None, Meta(description="Where the flight ends.")] = None
    amount: Annotated[
        Decimal | None, Meta(description="The distance as a decimal string, without detours.", examples=["2300"])
    ] = None
    unit: Annotated[DistanceUnit | None, Meta(description="Kilometres, miles or nautical miles.", examples=["km"])] = (
        None
    )


class DistanceOut(msgspec.Struct):
    amount: Annotated[DecimalText, Meta(description="The distance.", examples=["2303.119"])]
    unit: Annotated[DistanceUnit, Meta(description="Always kilometres.", examples=["km"])]


class Distance(msgspec.Struct, frozen=True):
    """`airports` are the two ends, if they are known."""

    km: Decimal
    method: DistanceMethod
    explain: ExplainStepOut
    airports: Sequence[Airport] = ()

    @property
    def out(self) -> DistanceOut:
        return DistanceOut(plain(self.km), DistanceUnit.KM)


def air_distance(route: AirRouteIn, field: str) -> Distance:
    """Raises an error that names the field below `field`."""
    if route.amount is not None and route.unit is not None and route.source is None and route.destination is None:
        return given_distance(route.amount, route.unit, field)
    if route.source is None or route.destination is None or route.amount is not None or route.unit is not None:
        raise RouteRequired(field=field)
    source = _airport(route.source, f"{field}.source.code")
    destination = _airport(route.destination, f"{field}.destination.code")
    km = great_circle_km(source.coordinates, destination.coordinates)
    if not km:
        raise DistanceInvalid("Source and destination are the same airport. Send two airports.", field=field)
    names = f"{source.code} ({source.name}) to {destination.code} ({destination.name})"
    # The published factors for flights are higher by the detours that planes fly, on average 8 %.
    explain = step(
        f"Great circle from {names}. The emission factors include detours, so none is added.",
        f"great circle {source.code} – {destination.code} = {plain(km)} km",
        km,
        "km",
    )
    return Distance(km, DistanceMethod.GREAT_CIRCLE, explain, (source, destination))


def given_distance(amount: Decimal, unit: DistanceUnit, field: str) -> Distance:
    km = amount * KM_PER_UNIT[unit]
    if not 0 < km <= MAX_KM:
        raise DistanceInvalid(field=f"{field}.amount")
    formula = f"{plain(amount)} {unit}"
    if unit is not DistanceUnit.KM:
        formula += f" × {plain(KM_PER_UNIT[unit])} km per {unit} = {plain(km)} km"
    return Distance(km, DistanceMethod.USER_INPUT, step("Distance as it was sent.", formula, km, "km"))


def _airport(place: AirportIn, field: str) -> Airport:
    airport = find_airport(place.code)
    if airport is None:
        raise AirportInvalid(field=field)
    return airport
