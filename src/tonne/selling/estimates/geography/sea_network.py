"""The shipping lanes of the package searoute, and the shortest way along them.

searoute itself would load networkx and a graph of objects: 270 MB and two seconds in every api process. The same
network takes 12 MB here, and the search finds the same distances; a test compares them.
"""

import heapq
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from math import acos, asin, cos, radians, sin, sqrt
from typing import NamedTuple

import msgspec

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
