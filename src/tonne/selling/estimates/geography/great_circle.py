"""The shortest distance between two points on Earth."""

from decimal import Decimal
from math import asin, cos, radians, sin, sqrt

from tonne.selling.estimates.geography.model import Coordinates

# The mean radius of the Earth by the IUGG.
EARTH_RADIUS_KM = 6371.0088


def great_circle_km(first: Coordinates, second: Coordinates) -> Decimal:
    """By the haversine formula on a sphere, rounded to the metre. The Earth's flattening makes it wrong by 0.5 %.

    The only step of a calculation in floating point: coordinates are measured, not exact.
    """
    lat, other_lat = radians(first.lat), radians(second.lat)
    across = sin((other_lat - lat) / 2) ** 2
    along = sin(radians(second.lon - first.lon) / 2) ** 2
    chord = min(1.0, across + cos(lat) * cos(other_lat) * along)
    return Decimal(f"{2 * EARTH_RADIUS_KM * asin(sqrt(chord)):.3f}")
