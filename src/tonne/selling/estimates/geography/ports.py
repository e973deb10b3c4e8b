"""Ports by UN/LOCODE, of the package searoute."""

from functools import cache, lru_cache

import msgspec

from tonne.selling.estimates.geography.model import Coordinates, Location
from tonne.selling.estimates.geography.package_data import data_file
from tonne.selling.estimates.geography.sea_network import MAX_CACHED_POINTS, haversine_km, nearest_lane, sea_network

# A few places in the list are terminals far from any sea. Ships reach the others on rivers and canals.
SEA_ACCESS_KM = 300
# How far away a place may be that is shipped from a port, and how far that port may be from the sea.
NEAR_KM = 100


class Port(msgspec.Struct, frozen=True):
    locode: str
    location: Location


class _PortProperties(msgspec.Struct):
    port: str
    name: str


class _PortGeometry(msgspec.Struct):
    coordinates: tuple[float, float]


class _PortFeature(msgspec.Struct):
    properties: _PortProperties
    geometry: _PortGeometry


class _PortFile(msgspec.Struct):
    features: list[_PortFeature]


@cache
def _ports() -> dict[str, Port]:
    ports: dict[str, Port] = {}
    for feature in msgspec.json.decode(data_file("searoute", "data", "ports.geojson"), type=_PortFile).features:
        code, (lon, lat) = feature.properties.port, feature.geometry.coordinates
        # Some ports are listed twice, a few kilometres apart. The first one counts.
        if len(code) == 5:
            ports.setdefault(
                code, Port(code, Location(f"{feature.properties.name} ({code})", Coordinates(lat, lon), code[:2]))
            )
    return ports


def find_port(locode: str) -> Port | None:
    """`NLRTM` or `NL RTM`, in any case."""
    return _ports().get(locode.upper().replace(" ", ""))


def count_ports() -> int:
    return len(_ports())


def is_at_sea(port: Port) -> bool:
    return _km_to_lanes(port.location.coordinates) <= SEA_ACCESS_KM


@lru_cache(maxsize=MAX_CACHED_POINTS)
def nearest_port(point: Coordinates) -> Port | None:
    """The nearest port at sea, or None if there is none within `NEAR_KM`."""
    near = sorted(
        (km, port.locode, port)
        for port in _ports().values()
        if (km := haversine_km(point, port.location.coordinates)) <= NEAR_KM
    )
    return next((port for _, _, port in near if _km_to_lanes(port.location.coordinates) <= NEAR_KM), None)


def _km_to_lanes(point: Coordinates) -> float:
    return haversine_km(point, sea_network().points[nearest_lane(point)])
