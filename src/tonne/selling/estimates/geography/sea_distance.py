"""Distances at sea: along the shipping lanes of the package searoute."""

from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from tonne.selling.estimates.geography.model import Coordinates
from tonne.selling.estimates.geography.sea_network import haversine_km, nearest_lane, sea_network

# Routes through the ice of the Northwest Passage are hardly sailed.
_ALWAYS_AVOIDED = frozenset({"northwest"})
MAX_CACHED_ROUTES = 4096


class TransitCorridor(StrEnum):
    """Ways between the oceans. The short names mean the same as the long ones."""

    SUEZ_CANAL = "suez_canal"
    SUEZ = "suez"
    PANAMA_CANAL = "panama_canal"
    PANAMA = "panama"
    CAPE_OF_GOOD_HOPE = "cape_of_good_hope"


# The passages that are closed so that the route takes the corridor.
_CLOSED = {
    TransitCorridor.SUEZ_CANAL: frozenset({"panama"}),
    TransitCorridor.SUEZ: frozenset({"panama"}),
    TransitCorridor.PANAMA_CANAL: frozenset({"suez"}),
    TransitCorridor.PANAMA: frozenset({"suez"}),
    TransitCorridor.CAPE_OF_GOOD_HOPE: frozenset({"suez", "panama"}),
}

PASSAGE_NAMES = {
    "babalmandab": "Bab-el-Mandeb",
    "bering": "Bering Strait",
    "bosporus": "Bosporus",
    "chili": "Strait of Magellan",
    "dardanelles": "Dardanelles",
    "gibraltar": "Strait of Gibraltar",
    "malacca": "Strait of Malacca",
    "ormuz": "Strait of Hormuz",
    "panama": "Panama Canal",
    "south_africa": "Cape of Good Hope",
    "suez": "Suez Canal",
    "sunda": "Sunda Strait",
}


class PassageOnRoute(Struct, frozen=True):
    """`km` is the distance from the passage before it, or from the start."""

    name: str
    coordinates: Coordinates
    km: float


class SeaRoute(Struct, frozen=True):
    """`last_km` is the distance from the last passage, or from the start, to the end."""

    km: float
    passages: tuple[PassageOnRoute, ...]
    last_km: float


@lru_cache(maxsize=MAX_CACHED_ROUTES)
def sea_route(start: Coordinates, end: Coordinates, corridor: TransitCorridor | None = None) -> SeaRoute | None:
    """The shortest route, or None if there is none, or none through the corridor.

    A route that is not cached takes up to 40 ms of CPU: call it through `asyncio.to_thread`.
    """
    network = sea_network()
    closed = _ALWAYS_AVOIDED if corridor is None else _ALWAYS_AVOIDED | _CLOSED[corridor]
    path = network.shortest_path(nearest_lane(start), nearest_lane(end), closed)
    if path is None:
        return None
    points = [network.points[node] for node in path.nodes]
    names = [network.passage(first, second) for first, second in pairwise(path.nodes)]
    if corridor is not None and not _is_through(corridor, points, names):
        return None
    passages: list[PassageOnRoute] = []
    km = since = haversine_km(start, points[0])
    inside: str | None = None
    for (first, second), name in zip(pairwise(points), names, strict=True):
        if name is not None and name != inside and name in PASSAGE_NAMES:
            passages.append(PassageOnRoute(PASSAGE_NAMES[name], first, since))
            since = 0.0
        inside = name
        step = haversine_km(first, second)
        km, since = km + step, since + step
    last = haversine_km(points[-1], end)
    return SeaRoute(km + last, tuple(passages), since + last)


def _is_through(corridor: TransitCorridor, points: list[Coordinates], names: list[str | None]) -> bool:
    if corridor is TransitCorridor.CAPE_OF_GOOD_HOPE:
        # Not all lanes around the cape have its name.
        return any(point.lat < -30 and 10 < point.lon < 30 for point in points)
    return corridor.value.removesuffix("_canal") in names
