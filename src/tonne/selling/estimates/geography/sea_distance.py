"""Distances at sea: the shortest way along the shipping lanes of the package searoute.

searoute itself would load networkx and a graph of objects: 270 MB and two seconds in every api process. The same
network takes 12 MB here, and the search finds the same distances; a test compares them.
"""

import heapq
from collections.abc import Collection, Iterator
from enum import StrEnum
from functools import cache, lru_cache
from itertools import pairwise
from math import acos, asin, cos, radians, sin, sqrt
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tonne.selling.estimates.geography.extracts import read_extract
from tonne.selling.estimates.geography.model import Coordinates

EARTH_RADIUS_KM = 6371.0088
MAX_CACHED_POINTS = 8192


class Lane(NamedTuple):
    """An edge of the network, seen from one of its ends. `passage` is a strait or canal, or None."""

    node: int
    km: float
    passage: str | None


class NetworkPath(NamedTuple):
    km: float
    nodes: list[int]


class SeaNetwork:
    def __init__(self, lines: Iterator[tuple[Coordinates, Coordinates, str | None]]) -> None:
        self.points: list[Coordinates] = []
        self._lanes: list[list[Lane]] = []
        self._vectors: list[tuple[float, float, float]] = []
        numbers: dict[Coordinates, int] = {}
        for start, end, passage in lines:
            first, last = (numbers.setdefault(point, len(numbers)) for point in (start, end))
            for number, point in ((first, start), (last, end)):
                if number == len(self.points):
                    self._add(point)
            km = haversine_km(start, end)
            self._lanes[first].append(Lane(last, km, passage))
            self._lanes[last].append(Lane(first, km, passage))

    def _add(self, point: Coordinates) -> None:
        self.points.append(point)
        self._lanes.append([])
        self._vectors.append(_vector(point))

    def nearest(self, point: Coordinates) -> int:
        x, y, z = _vector(point)
        products = [x * u + y * v + z * w for u, v, w in self._vectors]
        return products.index(max(products))

    def passage(self, first: int, second: int) -> str | None:
        return next((lane.passage for lane in self._lanes[first] if lane.node == second), None)

    def shortest_path(self, start: int, end: int, avoided: Collection[str]) -> NetworkPath | None:
        """A* search. None if the two are not connected without the avoided passages."""
        vectors, x, y, z = self._vectors, *self._vectors[end]

        def at_least(node: int) -> float:
            u, v, w = vectors[node]
            return EARTH_RADIUS_KM * acos(max(-1.0, min(1.0, x * u + y * v + z * w)))

        best = {start: 0.0}
        before: dict[int, int] = {}
        done: set[int] = set()
        queue = [(at_least(start), start)]
        while queue:
            _, node = heapq.heappop(queue)
            if node == end:
                return NetworkPath(best[end], _trace(before, end))
            if node in done:
                continue
            done.add(node)
            so_far = best[node]
            for neighbour, km, passage in self._lanes[node]:
                if neighbour in done or (passage is not None and passage in avoided):
                    continue
                total = so_far + km
                known = best.get(neighbour)
                if known is None or total < known:
                    best[neighbour], before[neighbour] = total, node
                    heapq.heappush(queue, (total + at_least(neighbour), neighbour))
        return None


def _trace(before: dict[int, int], end: int) -> list[int]:
    nodes = [end]
    while nodes[-1] in before:
        nodes.append(before[nodes[-1]])
    return nodes[::-1]


def haversine_km(first: Coordinates, second: Coordinates) -> float:
    lat1, lon1, lat2, lon2 = map(radians, (*first, *second))
    root = sin((lat2 - lat1) / 2) ** 2 + cos(lat1) * cos(lat2) * sin((lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * asin(min(1.0, sqrt(root)))


def _vector(point: Coordinates) -> tuple[float, float, float]:
    lat, lon = radians(point.lat), radians(point.lon)
    return cos(lat) * cos(lon), cos(lat) * sin(lon), sin(lat)


@cache
def sea_network() -> SeaNetwork:
    return SeaNetwork(_lines())


@lru_cache(maxsize=MAX_CACHED_POINTS)
def nearest_lane(point: Coordinates) -> int:
    """The number of the nearest point of the network. Looking for it takes a few milliseconds."""
    return sea_network().nearest(point)


def _lines() -> Iterator[tuple[Coordinates, Coordinates, str | None]]:
    decoder = msgspec.json.Decoder(tuple[str | None, list[Coordinates]])
    for line in read_extract("lanes.jsonl").splitlines():
        passage, points = decoder.decode(line)
        for start, end in pairwise(points):
            yield start, end, passage


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
