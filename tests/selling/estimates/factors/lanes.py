"""Ten known lanes, as an estimate calculates them, and what is plausible for each."""

from decimal import Decimal
from typing import NamedTuple

from tests.selling.estimates.factors.file_checks import Factor, read_factors
from tonne.selling.estimates.geography.great_circle import great_circle_km
from tonne.selling.estimates.geography.inland_distance import with_detour
from tonne.selling.estimates.geography.model import Location
from tonne.selling.estimates.geography.places import find_city, find_port
from tonne.selling.estimates.geography.sea_distance import TransitCorridor, sea_route

KM_PER_NAUTICAL_MILE = Decimal("1.852")


class Lane(NamedTuple):
    start: str
    end: str
    corridor: TransitCorridor | None = None
    # Published figures that tests/selling/estimates/geography/test_sea_distance.py compares with.
    published_nmi: int | None = None

    @property
    def is_sea(self) -> bool:
        return "," not in self.start


LANES = (
    Lane("CNSHA", "NLRTM", None, 10_600),
    Lane("CNSHA", "NLRTM", TransitCorridor.CAPE_OF_GOOD_HOPE, 13_800),
    Lane("USNYC", "LKCMB", TransitCorridor.SUEZ_CANAL, 8_604),
    Lane("CNSHA", "USLAX"),
    Lane("NLRTM", "USNYC"),
    Lane("BRSSZ", "DEHAM"),
    Lane("Hamburg, DE", "Munich, DE"),
    Lane("Rotterdam, NL", "Milan, IT"),
    Lane("Paris, FR", "Madrid, ES"),
    Lane("Berlin, DE", "Warsaw, PL"),
)
# How much longer than the great circle a way may be, where no published figure is at hand: our own reasoning.
AT_SEA = (Decimal(1), Decimal("1.3"))
BY_ROAD = (Decimal("1.1"), Decimal("1.6"))
# A published figure is rounded, and measured between other points of the ports.
OF_PUBLISHED = (Decimal("0.97"), Decimal("1.03"))


class LaneFigures(NamedTuple):
    name: str
    km: Decimal
    low_km: Decimal
    high_km: Decimal
    source: str
    # Kilograms per tonne and kilometre, with well-to-tank.
    intensity: Decimal
    low_intensity: Decimal
    high_intensity: Decimal

    @property
    def row(self) -> str:
        cells = (
            self.name,
            f"{self.km:,.0f}",
            f"{self.low_km:,.0f} to {self.high_km:,.0f}, {self.source}",
            f"{self.intensity:.5f}",
            f"{self.low_intensity:.5f} to {self.high_intensity:.5f}",
        )
        return f"| {' | '.join(cells)} |"


def figures_of(lane: Lane) -> LaneFigures:
    places = [_place(name) for name in lane[:2]]
    start, end = (place.coordinates for place in places)
    straight = great_circle_km(start, end)
    if lane.is_sea:
        route = sea_route(start, end, lane.corridor)
        assert route is not None
        km, bounds, source, base = Decimal(route.km), AT_SEA, "B", straight
    else:
        km, bounds, source, base = with_detour(straight), BY_ROAD, "C", straight
    if lane.published_nmi is not None:
        bounds, source, base = OF_PUBLISHED, "A", lane.published_nmi * KM_PER_NAUTICAL_MILE
    corridor = "" if lane.corridor is None else f", {lane.corridor.value.replace('_', ' ')}"
    low, high = (bound * base for bound in bounds)
    name = " to ".join(str(place.label) for place in places)
    return LaneFigures(f"{name}{corridor}", km, low, high, source, *_intensities(lane))


def _place(name: str) -> Location:
    city, _, country = name.partition(", ")
    found = find_city(city, country) if country else None
    port = None if country else find_port(name)
    location = found or (port.location if port is not None else None)
    assert location is not None, name
    return location


def _intensities(lane: Lane) -> tuple[Decimal, Decimal, Decimal]:
    """What is used, and the lowest and highest of all sizes and loads of the same kind of vehicle in the file."""
    factors = [factor for factor in read_factors() if factor.unit == "tonne.km"]
    if lane.is_sea:
        same = [factor for factor in factors if factor.parts[1:2] == ("Container ship",)]
        used = next(factor for factor in same if factor.parts[-1] == "Average")
    else:
        same = [factor for factor in factors if factor.parts[0] == "HGV (all diesel)"]
        used = next(factor for factor in same if factor.parts[1:] == ("All HGVs", "Average laden"))
    totals = [_total(factor) for factor in same]
    return _total(used), min(totals), max(totals)


def _total(factor: Factor) -> Decimal:
    return factor.kg + (factor.well_to_tank or 0)
