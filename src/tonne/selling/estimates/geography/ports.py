"""Ports by UN/LOCODE, of the package searoute."""

import csv
import io
from functools import cache, lru_cache

import msgspec

from tonne.selling.estimates.geography.extracts import read_extract
from tonne.selling.estimates.geography.model import Coordinates, Location
from tonne.selling.estimates.geography.sea_distance import MAX_CACHED_POINTS, haversine_km, nearest_lane, sea_network

# A few places in the list are terminals far from any sea. Ships reach the others on rivers and canals.
SEA_ACCESS_KM = 300
# How far away a place may be that is shipped from a port, and how far that port may be from the sea.
NEAR_KM = 100


class Port(msgspec.Struct, frozen=True):
    locode: str
    location: Location


@cache
def _ports() -> dict[str, Port]:
    rows = csv.reader(io.StringIO(read_extract("ports.csv").decode("utf-8")))
    next(rows)
    return {
        code: Port(code, Location(f"{name} ({code})", Coordinates(float(lat), float(lon)), code[:2]))
        for code, name, lat, lon in rows
    }


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
