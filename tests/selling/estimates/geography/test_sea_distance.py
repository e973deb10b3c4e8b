"""Distances at sea, compared with published ones and with the package whose shipping lanes they follow."""

import pytest
import searoute

from tonne.selling.estimates.geography.model import Coordinates
from tonne.selling.estimates.geography.places import Port, count_ports, find_port, is_at_sea, nearest_port
from tonne.selling.estimates.geography.sea_distance import SeaRoute, TransitCorridor, sea_route

KM_PER_NAUTICAL_MILE = 1.852


def port(locode: str) -> Port:
    found = find_port(locode)
    assert found is not None, locode
    return found


def route(start: str, end: str, corridor: TransitCorridor | None = None) -> SeaRoute | None:
    return sea_route(port(start).location.coordinates, port(end).location.coordinates, corridor)


@pytest.mark.parametrize(
    ("start", "end", "corridor", "nautical_miles"),
    [
        # Notteboom, Pallis and Rodrigue, "Port Economics, Management and Policy": routing options between Shanghai,
        # Rotterdam and New York. They round to 100 nautical miles, which is up to 0.5 %.
        ("CNSHA", "NLRTM", None, 10_600),
        ("CNSHA", "NLRTM", TransitCorridor.CAPE_OF_GOOD_HOPE, 13_800),
        # National Geospatial-Intelligence Agency, Pub. 151, "Distances Between Ports": via Gibraltar.
        ("USNYC", "LKCMB", TransitCorridor.SUEZ_CANAL, 8_604),
    ],
)
def test_distances_agree_with_published_ones(
    start: str, end: str, corridor: TransitCorridor | None, nautical_miles: int
) -> None:
    """Within 3 %: tables measure between other points of a port, and the lanes are generalised lines."""
    found = route(start, end, corridor)
    assert found is not None
    assert found.km / KM_PER_NAUTICAL_MILE == pytest.approx(nautical_miles, rel=0.03)


def test_the_search_finds_the_distances_of_searoute() -> None:
    """Across the date line, through canals, and with closed ones."""
    closed = {None: ["northwest"], TransitCorridor.SUEZ: ["northwest", "panama"]}
    for start, end, corridor in (
        ("CNSHA", "NLRTM", None),
        ("AUSYD", "USLAX", None),
        ("NZAKL", "GBSOU", None),
        ("CNSHA", "USNYC", TransitCorridor.SUEZ),
    ):
        found = route(start, end, corridor)
        assert found is not None
        origin, destination = (port(code).location.coordinates[::-1] for code in (start, end))
        known = searoute.searoute(
            list(origin), list(destination), append_orig_dest=True, restrictions=closed[corridor]
        ).properties["length"]
        assert found.km == pytest.approx(known, rel=0.001), (start, end)


def test_a_route_names_its_passages_and_their_distances_add_up() -> None:
    found = route("CNSHA", "NLRTM")
    assert found is not None
    assert [passage.name for passage in found.passages] == [
        *("Strait of Malacca", "Bab-el-Mandeb", "Suez Canal", "Strait of Gibraltar")
    ]
    assert sum(passage.km for passage in found.passages) + found.last_km == pytest.approx(found.km)


def test_a_corridor_that_the_route_does_not_take_gives_none() -> None:
    assert route("USNYC", "NLRTM", TransitCorridor.SUEZ) is None
    assert route("NLRTM", "GBSOU", TransitCorridor.CAPE_OF_GOOD_HOPE) is None


def test_ports_are_found_by_code_and_by_place() -> None:
    assert count_ports() > 3_900
    assert port("nl rtm").location.label == "Rotterdam (NLRTM)"
    assert find_port("XXXXX") is None
    assert is_at_sea(port("DEHAM"))
    # The list contains terminals on land.
    assert not is_at_sea(port("USDEN"))
    hamburg, berlin = Coordinates(53.55, 9.99), Coordinates(52.52, 13.41)
    near = nearest_port(hamburg)
    assert near is not None
    assert near.locode == "DEHAM"
    assert nearest_port(berlin) is None


def test_the_second_call_is_answered_from_the_cache() -> None:
    sea_route.cache_clear()
    assert route("CNSHA", "NLRTM") is route("CNSHA", "NLRTM")
    assert sea_route.cache_info().hits == 1
