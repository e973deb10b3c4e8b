"""Request and response bodies of estimates for shipping."""

from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import msgspec
from msgspec import Meta

from tonne.platform.http.client_fields import IdempotencyKey, Metadata
from tonne.platform.http.openapi.components import any_of
from tonne.platform.values.context import Timestamp
from tonne.selling.catalogue.schemas import DecimalText
from tonne.selling.estimates.calculated_schemas import AS_SENT, CalculatedOut, CommonIn, EstimateMassOut, Moment
from tonne.selling.estimates.factors.schemas import EmissionFactorOut
from tonne.selling.estimates.geography.places import CountryCode, PlaceIn
from tonne.selling.estimates.geography.sea_distance import TransitCorridor
from tonne.selling.estimates.kinds.distance import DistanceMethod, DistanceOut, DistanceUnit
from tonne.selling.estimates.schemas import MassIn
from tonne.selling.estimates.shipping.methods import Method, TransportMode
from tonne.selling.estimates.shipping.read_method import MethodDetails, read_method
from tonne.selling.estimates.shipping.shipment import CargoType, ConversionMethod

MAX_LEGS = 50

if TYPE_CHECKING:
    # What read_method makes of it.
    MethodIn = Method
else:
    MethodIn = Annotated[
        str | MethodDetails,
        read_method,
        Meta(
            description="A name of GET /v1/estimates/shipping/methods, or an object for a truck or a ship.",
            examples=["diesel_truck"],
        ),
    ]
FactorCountry = Annotated[
    CountryCode | None,
    Meta(
        description="Where the goods are shipped. A factor of that country is used if one was imported; those of the "
        "package are for the UK.",
        examples=["DEU"],
    ),
]
IsShipment = Annotated[
    bool | None, Meta(description="Whether the goods were shipped; false for a mere plan.", examples=[True])
]
ShippedAt = Annotated[
    Moment | None,
    Meta(description="When the goods were shipped; a day is midnight UTC.", extra_json_schema={"format": "date-time"}),
]


class ShippingRouteIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A distance (`amount` and `unit`), or two places."""

    amount: Annotated[
        Decimal | None, Meta(description="The length of the route, a decimal string.", examples=[None, "584"])
    ] = None
    unit: Annotated[DistanceUnit | None, Meta(description="The unit of `amount`.", examples=[None, "km"])] = None
    source: Annotated[PlaceIn | None, Meta(description="Where the route starts.")] = None
    destination: Annotated[PlaceIn | None, Meta(description="Where the route ends.")] = None
    transit_corridor: Annotated[
        TransitCorridor | None,
        Meta(description="By sea: the way between the oceans that the ship takes.", examples=[None, "suez_canal"]),
    ] = None


class ShipmentIn(msgspec.Struct, forbid_unknown_fields=True):
    """A mass, or containers."""

    mass: Annotated[MassIn | None, Meta(description="The mass of the goods.")] = None
    containers: Annotated[
        Decimal | None, Meta(description="Containers in TEU, a decimal string.", examples=[None, "2"])
    ] = None
    cargo_type: Annotated[
        CargoType | None,
        Meta(
            description="How heavily the containers are loaded: 6, 10 or 14.5 t per TEU, or 2 t for empty ones, which "
            "are assumptions of Tonne. Without it they are average. Not used if there is a mass.",
            examples=[None, "average"],
        ),
    ] = None


class ShippingIn(CommonIn, kw_only=True):
    shipment: Annotated[ShipmentIn, Meta(description="What is shipped.")]
    # First, because the fault of a method that has no route, such as a warehouse, is about the method.
    method: MethodIn
    route: Annotated[ShippingRouteIn, Meta(description="How far, or from where to where.")]
    country_code: FactorCountry = None
    is_shipment: IsShipment = None
    shipped_at: ShippedAt = None


class ShippingLegIn(msgspec.Struct, forbid_unknown_fields=True):
    # First, because the fault of a method that has no route, such as a warehouse, is about the method.
    method: MethodIn
    route: Annotated[ShippingRouteIn, Meta(description="How far, or from where to where.")]
    country_code: FactorCountry = None


class MultiLegShippingIn(CommonIn, kw_only=True):
    shipment: Annotated[ShipmentIn, Meta(description="What is shipped, on all legs.")]
    legs: Annotated[
        list[ShippingLegIn], Meta(min_length=1, max_length=MAX_LEGS, description="The legs, in their order.")
    ]
    is_shipment: IsShipment = None
    shipped_at: ShippedAt = None


class ShippingAnnotationsIn(msgspec.Struct, forbid_unknown_fields=True):
    is_shipment: IsShipment = None
    shipped_at: ShippedAt = None
    metadata: Metadata | None = None
    idempotency_key: IdempotencyKey | None = None


class WellToWheelOut(msgspec.Struct):
    """The parts of a mass. They add up to it."""

    wtt: Annotated[EstimateMassOut, Meta(description="Well to tank: making and transporting the fuel.")]
    ttw: Annotated[EstimateMassOut, Meta(description="Tank to wheel: burning the fuel.")]
    unknown: Annotated[EstimateMassOut, Meta(description="Neither: the radiative forcing of planes at altitude.")]


class ShippingMassOut(EstimateMassOut):
    wtw_details: Annotated[WellToWheelOut | None, Meta(description="Its parts.")] = None
    pollutants: Annotated[None, Meta(description="Not calculated: always null.", examples=[None])] = None


class CoordinatesOut(msgspec.Struct):
    lat: Annotated[float, Meta(description="Degrees north.", examples=[52.52])]
    lon: Annotated[float, Meta(description="Degrees east.", examples=[13.41])]


class LocationOut(msgspec.Struct):
    label: Annotated[
        str | None, Meta(description="Name of the place, or null for a point.", examples=["Rotterdam (NLRTM)"])
    ]
    coordinates: Annotated[CoordinatesOut, Meta(description="Where it is.")]


class RouteStopOut(msgspec.Struct):
    location: Annotated[LocationOut, Meta(description="The destination, or a passage on the way to it.")]
    distance: Annotated[DistanceOut, Meta(description="From the place before it.")]


class ShippingRouteOut(msgspec.Struct):
    source: Annotated[LocationOut, Meta(description="Where the route starts.")]
    legs: Annotated[list[RouteStopOut], Meta(description="The way to the destination.")]
    attribution: Annotated[
        str | None, Meta(description="Whose data the route is made of.", examples=["Shipping lanes: searoute."])
    ]


class TransportWorkUnit(StrEnum):
    TONNE_KM = "t*km"


class TransportWorkOut(msgspec.Struct):
    value: Annotated[DecimalText, Meta(description="Mass × distance.", examples=["5840"])]
    unit: Annotated[TransportWorkUnit, Meta(description="The unit of `value`.", examples=["t*km"])]


class IntensityUnit(StrEnum):
    KG_PER_TONNE_KM = "kg_per_tkm"


class IntensityPartOut(msgspec.Struct):
    amount: Annotated[DecimalText, Meta(description="Mass of CO2 equivalent per unit of work.", examples=["0.12522"])]
    unit: Annotated[IntensityUnit, Meta(description="The unit of `amount`.", examples=["kg_per_tkm"])]


class IntensityOut(msgspec.Struct):
    wtt: Annotated[IntensityPartOut, Meta(description="Well to tank: making and transporting the fuel.")]
    ttw: Annotated[IntensityPartOut, Meta(description="Tank to wheel: burning the fuel.")]
    wtw: Annotated[IntensityPartOut, Meta(description="Well to wheel: the sum of the three others.")]
    unknown: Annotated[IntensityPartOut, Meta(description="Neither: the radiative forcing of planes at altitude.")]


class Fallback(StrEnum):
    IMO = "imo_unavailable_container_ship_fallback"
    IMO_TRADE_LANE = "imo_unavailable_container_ship_trade_lane_fallback"
    FLIGHT_NUMBER = "flight_number_unavailable_fallback"
    FLIGHT_ROUTE = "invalid_flight_route_fallback"


class DistanceDetailsOut(msgspec.Struct):
    detour_factor: Annotated[
        DecimalText | None,
        Meta(description="What the great circle was multiplied with, or null.", examples=["1.4"]),
    ]
    passages: Annotated[list[str], Meta(description="Straits and canals on the route.", examples=[["Suez Canal"]])]
    vessel_tracking: Annotated[None, Meta(description="Always null: no ship is tracked.", examples=[None])] = None
    carrier_schedule_stops: Annotated[
        None, Meta(description="Always null: no schedule of a carrier is used.", examples=[None])
    ] = None


class ShippingLegOut(msgspec.Struct, kw_only=True):
    """One leg of a shipment."""

    mass: Annotated[ShippingMassOut, Meta(description="The mass of CO2 equivalent.")]
    raw_distance: Annotated[DistanceOut, Meta(description="As measured: the great circle, or along shipping lanes.")]
    distance: Annotated[DistanceOut, Meta(description="As travelled: with the detours of ways on land.")]
    adjusted_distance: Annotated[DistanceOut, Meta(description="What the factor was multiplied with.")]
    distance_calculation_method: Annotated[
        DistanceMethod | None, Meta(description="How the distance was found.", examples=["inland_distance_algorithm"])
    ]
    activity: Annotated[TransportWorkOut | None, Meta(description="What the factor was multiplied with.")]
    intensity: Annotated[IntensityOut | None, Meta(description="Emissions per unit of `activity`.")]
    route: Annotated[ShippingRouteOut | None, Meta(description="The route; null if a distance was sent.")]
    emission_factor: Annotated[EmissionFactorOut, Meta(description="The factor that was used.")]
    methodology: Annotated[
        list[Fallback],
        Meta(
            description="What was used instead of a ship or a flight that was named. None can be named: empty.",
            examples=[[]],
        ),
    ]
    methodology_notes: Annotated[
        list[str],
        Meta(description="How it was calculated, in sentences.", examples=[["The distance is used as it was sent."]]),
    ]
    distance_calculation_details: Annotated[DistanceDetailsOut, Meta(description="How the distance was found.")]
    methodology_details: Annotated[None, Meta(description="Always null.", examples=[None])] = None
    data_quality_score: Annotated[None, Meta(description="Always null.", examples=[None])] = None
    converted_shipment: Annotated[
        EstimateMassOut | None,
        Meta(description="What the containers were taken for. Null if the mass of the shipment was sent."),
    ]
    shipment_conversion_method: Annotated[
        ConversionMethod | None,
        Meta(description="How containers became a mass, or null.", examples=["average_cargo_type"]),
    ]
    resolved_legs: Annotated[None, Meta(description="Always null.", examples=[None])] = None


class ShipmentOut(CalculatedOut, kw_only=True):
    request: Annotated[Any, AS_SENT, Meta(extra_json_schema=any_of(ShippingIn, MultiLegShippingIn))]
    is_shipment: Annotated[bool, Meta(description="Whether the goods were shipped.", examples=[True])]
    shipped_at: Annotated[Timestamp | None, Meta(description="When, or null.")]
    external_estimate_url: Annotated[None, Meta(description="Always null.", examples=[None])] = None
    filename: Annotated[None, Meta(description="Always null.", examples=[None])] = None
    user_fullname: Annotated[None, Meta(description="Always null.", examples=[None])] = None


# A shipment in one leg has the fields of both. A struct cannot have two bases.
_LEG_HINTS = get_type_hints(ShippingLegOut, include_extras=True)
ShippingOut = cast(
    "type[ShipmentOut]",
    msgspec.defstruct(
        "ShippingOut",
        [
            ("request", Annotated[ShippingIn, AS_SENT]),
            *((field.name, _LEG_HINTS[field.name], field.default) for field in msgspec.structs.fields(ShippingLegOut)),
        ],
        bases=(ShipmentOut,),
        module=__name__,
        kw_only=True,
    ),
)


class MultiLegShippingOut(ShipmentOut, kw_only=True):
    request: Annotated[MultiLegShippingIn, AS_SENT]
    legs: Annotated[list[ShippingLegOut], Meta(description="The legs, in their order.")]
    raw_distance: Annotated[DistanceOut, Meta(description="Sum of the legs.")]
    distance: Annotated[DistanceOut, Meta(description="Sum of the legs.")]
    adjusted_distance: Annotated[DistanceOut, Meta(description="Sum of the legs.")]
    data_quality_score: Annotated[None, Meta(description="Always null.", examples=[None])] = None


class ShippingMethodOut(msgspec.Struct):
    method: Annotated[
        str | MethodDetails,
        Meta(description="What to send as `method`: a name, or an object.", examples=["diesel_truck"]),
    ]
    mode: Annotated[TransportMode, Meta(description="How the goods move.", examples=["road"])]
    emission_factors: Annotated[
        list[str],
        Meta(
            description="Ids of the factors. By air the route decides which one is used.",
            examples=[["desnz-2025/hgv-all-diesel-all-hgvs-average-laden/tonne-km"]],
        ),
    ]
    note: Annotated[
        str | None,
        Meta(description="What the factor is used instead of if none is closer, or null.", examples=[None]),
    ]
