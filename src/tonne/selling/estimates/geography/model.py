"""Points on Earth, and places with a name."""

from dataclasses import dataclass
from typing import NamedTuple


class Coordinates(NamedTuple):
    """Degrees: north and east are positive."""

    lat: float
    lon: float


@dataclass(frozen=True, slots=True)
class Location:
    """`label` is None for a point that was given by coordinates. `country` is an ISO 3166-1 alpha-2 code."""

    label: str | None
    coordinates: Coordinates
    country: str | None = None
