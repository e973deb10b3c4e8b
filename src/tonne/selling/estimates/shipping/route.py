"""How long the way of a shipment is."""

from collections.abc import Sequence
from decimal import Decimal
from threading import Lock

from msgspec import Struct

from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.estimates.calculated import plain, step
from tonne.selling.estimates.calculated_schemas import ExplainStepOut
from tonne.selling.estimates.geography.countries import are_on_one_landmass
from tonne.selling.estimates.geography.errors import PortNotFound, TransportRouteNotFound
from tonne.selling.estimates.geography.great_circle import great_circle_km
from tonne.selling.estimates.geography.inland_distance import DETOUR, with_detour
from tonne.selling.estimates.geography.model import Location
from tonne.selling.estimates.geography.places import PlaceIn, is_at_sea, nearest_port, resolve_place, resolve_port
from tonne.selling.estimates.geography.sea_distance import TransitCorridor, sea_route
from tonne.selling.estimates.kinds.distance import DistanceMethod, given_distance
from tonne.selling.estimates.shipping.methods import Method, TransportMode, require_mode
from tonne.selling.estimates.shipping.schemas import ShippingRouteIn

# Routes whose distance is kept. Entries are dropped in the order in which they came.
MAX_KNOWN = 4096


class RouteDistance(Struct, frozen=True, kw_only=True):
    """`straight_km` is measured, `km` what the factor is multiplied with. `stops` has the distance to each stop."""

    method: DistanceMethod
    straight_km: Decimal
    km: Decimal
    source: Location | None = None
    stops: Sequence[tuple[Location, Decimal]] = ()
    passages: Sequence[str] = ()
    explain: ExplainStepOut
    methodology: str


_known: dict[tuple[ShippingRouteIn, TransportMode], RouteDistance] = {}
_known_lock = Lock()


def is_quick(route: ShippingRouteIn, method: Method) -> bool:
    """Whether the distance was sent, or was measured before."""
    return route.source is None or (route, method.mode) in _known


def measure_route(route: ShippingRouteIn, method: Method, field: str) -> RouteDistance:
    """The first time, a route at sea or to a city takes up to 40 ms of CPU, and more until their data are loaded."""
    found = _known.get((route, method.mode))
    if found is None:
        found = _measure(route, method, field)
        if found.source is not None:
            with _known_lock:
                if len(_known) >= MAX_KNOWN:
                    del _known[next(iter(_known))]
                _known[route, method.mode] = found
    return found


def _measure(route: ShippingRouteIn, method: Method, field: str) -> RouteDistance:
    if route.transit_corridor is not None:
        require_mode(method, TransportMode.SEA, "transit_corridor", field)
    if route.amount is not None or route.unit is not None:
        return _given(route, field)
    if route.source is None or route.destination is None:
        raise _invalid(f"{field} needs amount and unit, or source and destination.", field)
    if method.mode is TransportMode.SEA:
        source, destination = (_port(place, f"{field}.{end}") for place, end in _ends(route.source, route.destination))
    else:
        source, destination = (
            resolve_place(place, f"{field}.{end}") for place, end in _ends(route.source, route.destination)
        )
    if source.coordinates == destination.coordinates:
        raise TransportRouteNotFound(
            f"Source and destination are the same place, {_label(source)}. Send two places, or the distance.",
            field=field,
        )
    if method.mode is TransportMode.SEA:
        return _by_sea(source, destination, route.transit_corridor, field)
    if method.mode is TransportMode.AIR:
        return _by_air(source, destination)
    return _on_land(source, destination, method, field)


def _ends(source: PlaceIn, destination: PlaceIn) -> tuple[tuple[PlaceIn, str], tuple[PlaceIn, str]]:
    return (source, "source"), (destination, "destination")


def _given(route: ShippingRouteIn, field: str) -> RouteDistance:
    if route.source is not None or route.destination is not None or route.transit_corridor is not None:
        message = f"{field} has a distance, and places as well. Send amount and unit, or source and destination."
        raise _invalid(message, field)
    if route.amount is None or route.unit is None:
        missing = "amount" if route.amount is None else "unit"
        raise _invalid(f"{field}.{missing} is required.", f"{field}.{missing}")
    given = given_distance(route.amount, route.unit, field)
    return RouteDistance(
        method=given.method,
        straight_km=given.km,
        km=given.km,
        explain=given.explain,
        methodology="The distance is used as it was sent.",
    )


def _port(place: PlaceIn, field: str) -> Location:
    if place.locode is not None:
        # Also refuses further members beside it.
        location = resolve_place(place, field)
        if not is_at_sea(resolve_port(place.locode, field)):
            raise PortNotFound(
                f"{_label(location)} is not at the sea. Send the locode of a seaport, and the way to it as a leg.",
                field=f"{field}.locode",
            )
        return location
    near = nearest_port(resolve_place(place, field).coordinates)
    if near is None:
        raise PortNotFound(field=field)
    return near.location


def _by_sea(source: Location, destination: Location, corridor: TransitCorridor | None, field: str) -> RouteDistance:
    found = sea_route(source.coordinates, destination.coordinates, corridor)
    if found is None:
        through = "" if corridor is None else f" through {corridor.value.replace('_', ' ')}"
        advice = "Send the distance as amount and unit." if corridor is None else "Remove transit_corridor."
        raise TransportRouteNotFound(
            f"There is no route from {_label(source)} to {_label(destination)}{through} that ships take. {advice}",
            field=field if corridor is None else f"{field}.transit_corridor",
        )
    km = rounded_km(found.km)
    passages = [passage.name for passage in found.passages]
    via = f" via {', '.join(passages)}" if passages else ""
    stops = [
        *((Location(passage.name, passage.coordinates), rounded_km(passage.km)) for passage in found.passages),
        (destination, rounded_km(found.last_km)),
    ]
    return RouteDistance(
        method=DistanceMethod.SEA,
        straight_km=km,
        km=km,
        source=source,
        stops=stops,
        passages=passages,
        explain=step("Distance by sea", f"{_label(source)} to {_label(destination)}{via} = {plain(km)} km", km, "km"),
        methodology="The distance by sea is the shortest one along the shipping lanes of searoute; the Northwest "
        "Passage is closed. Nothing is added: the factors are per kilometre sailed.",
    )


def _by_air(source: Location, destination: Location) -> RouteDistance:
    km = great_circle_km(source.coordinates, destination.coordinates)
    return RouteDistance(
        method=DistanceMethod.GREAT_CIRCLE,
        straight_km=km,
        km=km,
        source=source,
        stops=[(destination, km)],
        explain=step("Great circle distance", f"{_label(source)} to {_label(destination)} = {plain(km)} km", km, "km"),
        methodology="The distance by air is the great circle. Nothing is added: the published factors include the "
        "detours of planes.",
    )


def _on_land(source: Location, destination: Location, method: Method, field: str) -> RouteDistance:
    if source.country and destination.country and not are_on_one_landmass(source.country, destination.country):
        raise TransportRouteNotFound(
            f"There is no way by {method.mode} from {_label(source)} to {_label(destination)}. Use multi-leg with a "
            "leg by sea or air, or send the distance as amount and unit.",
            field=field,
        )
    straight = great_circle_km(source.coordinates, destination.coordinates)
    km = with_detour(straight)
    return RouteDistance(
        method=DistanceMethod.INLAND,
        straight_km=straight,
        km=km,
        source=source,
        stops=[(destination, km)],
        explain=step(
            f"Distance by {method.mode}. The factor {DETOUR} for detours is an assumption of Tonne.",
            f"{_label(source)} to {_label(destination)}: great circle {plain(straight)} km × {DETOUR} = {plain(km)} km",
            km,
            "km",
        ),
        methodology=f"The distance by {method.mode} is the great circle × {DETOUR}, because ways on land are longer "
        "than the straight line. The factor is an assumption of Tonne: send the real distance if you know it.",
    )


def rounded_km(km: float) -> Decimal:
    """To the metre."""
    return Decimal(f"{km:.3f}")


def _label(location: Location) -> str:
    lat, lon = location.coordinates
    return location.label or f"{lat:g}, {lon:g}"


def _invalid(message: str, field: str) -> Invalid:
    return Invalid([Fault("validation_error", message, field)])
