"""The emissions of one leg of a shipment: mass × distance × factor."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct

from tonne.selling.estimates.calculated import emission_step, mass_out, plain, split_grams, step, to_grams
from tonne.selling.estimates.calculated_schemas import ExplainStepOut
from tonne.selling.estimates.factors.model import UK, Factor, FactorSet
from tonne.selling.estimates.factors.schemas import factor_out
from tonne.selling.estimates.geography.countries import alpha_3, find_country
from tonne.selling.estimates.geography.inland_distance import DETOUR
from tonne.selling.estimates.geography.model import Location
from tonne.selling.estimates.geography.places import Airport
from tonne.selling.estimates.kinds.air import PUBLISHED_HAULS, haul_of
from tonne.selling.estimates.kinds.distance import Distance, DistanceMethod, DistanceOut, DistanceUnit
from tonne.selling.estimates.shipping import schemas
from tonne.selling.estimates.shipping.methods import FREIGHT, TONNE_KM, Method, TransportMode
from tonne.selling.estimates.shipping.route import RouteDistance, measure_route
from tonne.selling.estimates.shipping.shipment import ShippedMass

_ATTRIBUTIONS = {
    DistanceMethod.SEA: "Ports and shipping lanes: searoute (Apache-2.0).",
    DistanceMethod.INLAND: "Cities: GeoNames (CC BY 4.0).",
    DistanceMethod.GREAT_CIRCLE: "Airports: airportsdata (MIT). Cities: GeoNames (CC BY 4.0).",
}


class ShippingLeg(Struct, frozen=True):
    """What a request says about a leg. `field` is the path of its route in the request."""

    route: schemas.ShippingRouteIn
    method: Method
    country_code: str | None
    field: str


class LegResult(Struct, frozen=True):
    """`parts_grams` has the parts of the mass by their names on the wire."""

    mass_grams: int
    parts_grams: Mapping[str, int]
    distance: RouteDistance
    shown: schemas.ShippingLegOut
    explain: Sequence[ExplainStepOut]
    factors: Sequence[Factor]


class _Choice(Struct, frozen=True):
    """`plain_factor` is the factor without radiative forcing; the same as `factor` on the ground and at sea."""

    factor: Factor
    plain_factor: Factor
    uplift: Decimal
    uplift_text: str
    notes: Sequence[str]


def calculate_leg(leg: ShippingLeg, shipment: ShippedMass, factors: FactorSet) -> LegResult:
    distance = measure_route(leg.route, leg.method, leg.field)
    choice = _choose(leg, distance, factors)
    work = shipment.tonnes * distance.km
    burnt, fuel, forcing = _parts(work, choice)
    [burnt_grams, fuel_grams, forcing_grams] = split_grams([burnt, fuel, forcing])
    total = burnt_grams + fuel_grams + forcing_grams
    shown = schemas.ShippingLegOut(
        mass=schemas.ShippingMassOut(
            mass_out(total).amount,
            mass_out(total).unit,
            wtw_details=schemas.WellToWheelOut(mass_out(fuel_grams), mass_out(burnt_grams), mass_out(forcing_grams)),
        ),
        raw_distance=kilometres(distance.straight_km),
        distance=kilometres(distance.km),
        adjusted_distance=kilometres(distance.km),
        distance_calculation_method=distance.method,
        activity=schemas.TransportWorkOut(plain(work, 6), schemas.TransportWorkUnit.TONNE_KM),
        intensity=_intensity(choice),
        route=_route_out(distance),
        emission_factor=factor_out(choice.factor),
        methodology=[],
        methodology_notes=[*choice.notes, distance.methodology, *([] if shipment.note is None else [shipment.note])],
        distance_calculation_details=schemas.DistanceDetailsOut(
            str(DETOUR) if distance.method is DistanceMethod.INLAND else None, list(distance.passages)
        ),
        converted_shipment=None if shipment.conversion is None else mass_out(to_grams(shipment.tonnes * 1000)),
        shipment_conversion_method=shipment.conversion,
    )
    used = [choice.factor] if choice.factor is choice.plain_factor else [choice.factor, choice.plain_factor]
    parts = {"wtt": fuel_grams, "ttw": burnt_grams, "unknown": forcing_grams}
    return LegResult(total, parts, distance, shown, _explain(shipment, distance, choice, work), used)


def _choose(leg: ShippingLeg, distance: RouteDistance, factors: FactorSet) -> _Choice:
    method, region = leg.method, alpha_3(leg.country_code) or UK
    notes = list(method.notes)
    activity = bare = method.activity
    if method.mode is TransportMode.AIR:
        haul, reason = _haul(distance)
        activity, bare = f"Freight flights / {haul} / With RF", f"Freight flights / {haul} / Without RF"
        notes.append(reason)
    factor = factors.find(FREIGHT, activity, TONNE_KM, region) or factors.get(FREIGHT, activity, TONNE_KM)
    plain_factor = factor if bare == activity else factors.get(FREIGHT, bare, TONNE_KM)
    uplift, uplift_text = Decimal(1), ""
    if method.uplift is not None:
        cooled, other = (factors.get(FREIGHT, name, TONNE_KM) for name in method.uplift)
        uplift = (cooled.kg_per_unit / other.kg_per_unit).quantize(Decimal("0.0001"), ROUND_HALF_UP)
        uplift_text = f"{plain(cooled.kg_per_unit)} ÷ {plain(other.kg_per_unit)} = {plain(uplift)}"
    country = find_country(leg.country_code) if leg.country_code is not None else None
    abroad = "" if country is None or country.iso3 == factor.region else f" It is used for {country.name}, too."
    published = f"{factor.activity}, {factor.source}, published for {factor.region}"
    sentences = [
        f"Mass × distance × factor. The factor is {published}.{abroad}",
        "The result is from well to wheel: the fuel that is burnt, and what making and transporting it causes.",
        *notes,
    ]
    return _Choice(factor, plain_factor, uplift, uplift_text, sentences)


def _haul(distance: RouteDistance) -> tuple[str, str]:
    """The haul by its published name, and the reason: the same as for passengers."""
    ends = [distance.source, *(location for location, _ in distance.stops)]
    airports = [
        Airport("", end.label or "", end.country, end.coordinates)
        for end in ends
        if end is not None and end.country is not None
    ]
    known = airports if len(airports) == 2 else ()
    haul, reason = haul_of(Distance(distance.km, distance.method, distance.explain, known))
    return PUBLISHED_HAULS[haul], f"{reason}: the factor is “{PUBLISHED_HAULS[haul]}”, with radiative forcing."


def _parts(work: Decimal, choice: _Choice) -> tuple[Decimal, Decimal, Decimal]:
    """Kilograms from burning fuel, from making it, and from radiative forcing."""
    burnt = work * choice.plain_factor.kg_per_unit * choice.uplift
    fuel = work * (choice.factor.well_to_tank or 0) * choice.uplift
    forcing = work * (choice.factor.kg_per_unit - choice.plain_factor.kg_per_unit)
    return burnt, fuel, max(forcing, Decimal(0))


def _intensity(choice: _Choice) -> schemas.IntensityOut:
    ttw, wtt, unknown = _parts(Decimal(1), choice)
    parts = (wtt, ttw, wtt + ttw + unknown, unknown)
    return schemas.IntensityOut(
        *(schemas.IntensityPartOut(plain(part), schemas.IntensityUnit.KG_PER_TONNE_KM) for part in parts)
    )


def _explain(shipment: ShippedMass, distance: RouteDistance, choice: _Choice, work: Decimal) -> list[ExplainStepOut]:
    burnt, fuel, forcing = _parts(work, choice)
    amounts = [f"{plain(work, 6)} t*km"]
    steps = [
        distance.explain,
        step(
            "Transport work",
            f"{plain(shipment.tonnes)} t × {plain(distance.km)} km = {plain(work, 6)} t*km",
            work,
            TONNE_KM,
        ),
    ]
    if choice.uplift_text:
        steps.append(step("What refrigeration adds", choice.uplift_text, choice.uplift))
        amounts.append(plain(choice.uplift))
    bare = choice.plain_factor
    steps.append(emission_step("Burning the fuel (tank to wheel)", amounts, bare, bare.kg_per_unit, burnt))
    if choice.factor.well_to_tank is not None:
        making = choice.factor.well_to_tank
        steps.append(emission_step("Making the fuel (well to tank)", amounts, choice.factor, making, fuel))
    if choice.factor is not bare:
        difference = choice.factor.kg_per_unit - bare.kg_per_unit
        text = "Radiative forcing: the factor that includes it, less the one without it"
        steps.append(emission_step(text, amounts, choice.factor, difference, forcing))
    return steps


def _route_out(distance: RouteDistance) -> schemas.ShippingRouteOut | None:
    if distance.source is None:
        return None
    return schemas.ShippingRouteOut(
        _location(distance.source),
        [schemas.RouteStopOut(_location(location), kilometres(km)) for location, km in distance.stops],
        _ATTRIBUTIONS.get(distance.method),
    )


def _location(location: Location) -> schemas.LocationOut:
    return schemas.LocationOut(location.label, schemas.CoordinatesOut(*location.coordinates))


def kilometres(km: Decimal) -> DistanceOut:
    return DistanceOut(plain(km, 3), DistanceUnit.KM)
