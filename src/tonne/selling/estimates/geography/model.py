"""Points on Earth, and places with a name."""

from typing import NamedTuple

from msgspec import Struct


class Coordinates(NamedTuple):
    """Degrees: north and east are positive."""

    lat: float
    lon: float


class Location(Struct, frozen=True):
    """`label` is None for a point that was given by coordinates. `country` is an ISO 3166-1 alpha-2 code."""

    label: str | None
    coordinates: Coordinates
    country: str | None = None
