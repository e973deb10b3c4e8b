"""The two kinds of estimates for shipping."""

from collections.abc import Sequence
from decimal import Decimal

import msgspec

from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.estimates.calculated import Annotations, Calculated, EstimateKind, mass_out, step
from tonne.selling.estimates.calculated_schemas import ExplainStepOut
from tonne.selling.estimates.factors.model import FactorSet
from tonne.selling.estimates.geography.errors import (
    AddressNotFound,
    DestinationCodeInvalid,
    LocodeNotFound,
    PortNotFound,
    SourceCodeInvalid,
    TransportRouteNotFound,
)
from tonne.selling.estimates.kinds.errors import DistanceInvalid
from tonne.selling.estimates.shipping import schemas
from tonne.selling.estimates.shipping.calculate_leg import LegResult, ShippingLeg, calculate_leg, kilometres
from tonne.selling.estimates.shipping.route import is_quick
from tonne.selling.estimates.shipping.shipment import ShippedMass, shipped_mass

ROUTE_ERRORS = (
    *(AddressNotFound, DestinationCodeInvalid, DistanceInvalid, LocodeNotFound, PortNotFound, TransportRouteNotFound),
    SourceCodeInvalid,
)
# Fields that clients of other services know. Tonne has nothing to say there.
_ALWAYS_NULL = {"external_estimate_url": None, "filename": None, "user_fullname": None}


def calculate_shipping(request: schemas.ShippingIn, factors: FactorSet) -> Calculated:
    shipment = _shipment(request.shipment)
    leg = calculate_leg(ShippingLeg(request.route, request.method, request.country_code, "route"), shipment, factors)
    answer = msgspec.structs.asdict(leg.shown)
    return Calculated(leg.mass_grams, (shipment.explain, *leg.explain, _sum([leg])), leg.factors, answer | _ALWAYS_NULL)


def calculate_multi_leg(request: schemas.MultiLegShippingIn, factors: FactorSet) -> Calculated:
    if not 1 <= len(request.legs) <= schemas.MAX_LEGS:
        raise Invalid([Fault("validation_error", f"Send 1 to {schemas.MAX_LEGS} legs.", "legs")])
    shipment = _shipment(request.shipment)
    legs = [
        calculate_leg(ShippingLeg(leg.route, leg.method, leg.country_code, f"legs[{number}].route"), shipment, factors)
        for number, leg in enumerate(request.legs)
    ]
    explain = [
        msgspec.structs.replace(each, description=f"Leg {number}: {each.description}")
        for number, leg in enumerate(legs, 1)
        for each in leg.explain
    ]
    total = sum(leg.mass_grams for leg in legs)
    answer = {
        "mass": schemas.ShippingMassOut(mass_out(total).amount, mass_out(total).unit, _details(legs)),
        "legs": [leg.shown for leg in legs],
        "raw_distance": kilometres(sum((leg.distance.straight_km for leg in legs), Decimal(0))),
        "distance": kilometres(sum((leg.distance.km for leg in legs), Decimal(0))),
        "adjusted_distance": kilometres(sum((leg.distance.km for leg in legs), Decimal(0))),
        "data_quality_score": None,
    }
    used = {(factor.id, factor.version): factor for leg in legs for factor in leg.factors}
    return Calculated(total, (shipment.explain, *explain, _sum(legs)), list(used.values()), answer | _ALWAYS_NULL)


def _shipment(shipment: schemas.ShipmentIn) -> ShippedMass:
    return shipped_mass(shipment.mass, shipment.containers, shipment.cargo_type)


def _details(legs: Sequence[LegResult]) -> schemas.WellToWheelOut:
    return schemas.WellToWheelOut(
        *(mass_out(sum(leg.parts_grams[part] for leg in legs)) for part in ("wtt", "ttw", "unknown"))
    )


def _sum(legs: Sequence[LegResult]) -> ExplainStepOut:
    """Parts were rounded to the gram before they are added, so that everything that is shown adds up."""
    total = Decimal(sum(leg.mass_grams for leg in legs)) / 1000
    parts = [mass_out(leg.mass_grams).amount for leg in legs]
    description = "Sum, rounded to the gram" if len(legs) == 1 else "Sum of the legs, each rounded to the gram"
    return step(description, f"{' + '.join(parts)} kg = {mass_out(int(total * 1000)).amount} kg", total, "kg")


_ANNOTATIONS = Annotations("is_shipment", "shipped_at", schemas.ShippingAnnotationsIn)
_SHIPMENT = {"containers": "2", "cargo_type": "average"}
_SEA = {
    "route": {"source": {"locode": "CNSHA"}, "destination": {"locode": "NLRTM"}},
    "method": {"vessel_type": "container_ship"},
}
SHIPPING = EstimateKind(
    name="shipping",
    noun="a shipment",
    about="Mass or containers, by road, rail, sea or air, over a distance or between two places. Making the fuel is "
    "part of the mass, and shown apart.",
    operation="ShippingEstimate",
    parameter="shipping_estimate_id",
    request=schemas.ShippingIn,
    answer=schemas.ShippingOut,
    calculate=calculate_shipping,
    errors=ROUTE_ERRORS,
    example={"shipment": _SHIPMENT, **_SEA},
    annotations=_ANNOTATIONS,
    in_thread=True,
    is_slow=lambda request: not is_quick(request.route, request.method),
)
MULTI_LEG_SHIPPING = EstimateKind(
    name="shipping/multi-leg",
    noun="a shipment in several legs",
    about="The same shipment by one way after another: the legs are calculated like single shipments, and added up.",
    operation="MultiLegShippingEstimate",
    parameter="multi_leg_estimate_id",
    request=schemas.MultiLegShippingIn,
    answer=schemas.MultiLegShippingOut,
    calculate=calculate_multi_leg,
    errors=ROUTE_ERRORS,
    example={
        "shipment": _SHIPMENT,
        "legs": [
            _SEA,
            {
                "route": {
                    "source": {"locode": "NLRTM"},
                    "destination": {"city": "Duisburg", "country_code": "DEU"},
                },
                "method": "rail",
            },
        ],
    },
    annotations=_ANNOTATIONS,
    in_thread=True,
    is_slow=lambda request: not all(is_quick(leg.route, leg.method) for leg in request.legs),
)
KINDS = (SHIPPING, MULTI_LEG_SHIPPING)
