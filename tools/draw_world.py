"""Draws the map of the Sustainability page, and places the countries on it.

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    python tools/draw_world.py package

writes `src/tonne/platform/web/static/world.svg`, `src/tonne/channels/public_pages/figures/country_places.txt` and
`src/tonne/selling/catalogue/country_centres.txt`. The package contains the
1:50m coastlines and borders of Natural Earth, which are in the public domain. The map is a grid of dots in the Robinson
projection, without Antarctica. All dots of a row have the same latitude, so one scan per row finds the land.
"""

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from babel.core import get_global

ROOT = Path(__file__).parents[1] / "src" / "tonne"
WIDTH, STEP, NORTH, SOUTH = 1080, 6, 83.0, -56.0
# Robinson: length of the parallel and distance from the equator, for every five degrees of latitude.
ROBINSON = (
    *((1.0, 0.0), (0.9986, 0.062), (0.9954, 0.124), (0.99, 0.186), (0.9822, 0.248), (0.973, 0.31), (0.96, 0.372)),
    *((0.9427, 0.434), (0.9216, 0.4958), (0.8962, 0.5571), (0.8679, 0.6176), (0.835, 0.6769), (0.7986, 0.7346)),
    *((0.7597, 0.7903), (0.7186, 0.8435), (0.6732, 0.8936), (0.6213, 0.9394), (0.5722, 0.9761), (0.5322, 1.0)),
)
# The map begins in the Bering Strait, so that it does not cut Asia.
EAST_OF = -169.0
SCALE = WIDTH / (2 * math.pi * 0.8487)

Ring = list[tuple[float, float]]


def project(longitude: float, latitude: float) -> tuple[float, float]:
    place = abs(latitude) / 5
    low = min(int(place), len(ROBINSON) - 2)
    share = place - low
    length, height = (a + (b - a) * share for a, b in zip(ROBINSON[low], ROBINSON[low + 1], strict=True))
    turned = (longitude - EAST_OF) % 360 - 180
    return WIDTH / 2 + 0.8487 * SCALE * length * math.radians(turned), -1.3523 * SCALE * math.copysign(height, latitude)


def latitude_of(y: float) -> float:
    low, high = -90.0, 90.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if project(0, middle)[1] < y else (middle, high)
    return low


def rings_of(atlas: dict[str, Any], geometry: dict[str, Any]) -> Iterable[list[Ring]]:
    """The polygons of a TopoJSON geometry, each with its holes."""
    polygons = geometry["arcs"] if geometry["type"] == "MultiPolygon" else [geometry["arcs"]]
    for polygon in polygons:
        yield [[point for arc in ring for point in arc_of(atlas, arc)] for ring in polygon]


def arc_of(atlas: dict[str, Any], number: int) -> Ring:
    scale, move = atlas["transform"]["scale"], atlas["transform"]["translate"]
    x = y = 0
    points = []
    for dx, dy in atlas["arcs"][number if number >= 0 else ~number]:
        x, y = x + dx, y + dy
        points.append((x * scale[0] + move[0], y * scale[1] + move[1]))
    return points if number >= 0 else points[::-1]


def runs_of(ring: Ring, latitude: float) -> list[tuple[float, float]]:
    """The parts of a parallel that are inside a ring, from west to east."""
    found, turn = [], 0.0
    for (x1, y1), (x2, y2) in zip(ring, [*ring[1:], ring[0]], strict=True):
        # A border that crosses the 180th meridian goes on beyond 180 degrees.
        next_turn = turn + (360 if x2 - x1 < -180 else -360 if x2 - x1 > 180 else 0)
        if (y1 > latitude) != (y2 > latitude):
            found.append(x1 + turn + (x2 + next_turn - x1 - turn) * (latitude - y1) / (y2 - y1))
        turn = next_turn
    found.sort()
    return list(zip(found[::2], found[1::2], strict=False))


def draw(land: list[Ring]) -> tuple[str, float, int]:
    """Each run of dots is one dashed line. Returns the path, the top of the map and its height."""
    top, bottom = project(0, NORTH)[1], project(0, SOUTH)[1]
    path, row_height = [], STEP * 0.866
    rows = int((bottom - top) / row_height)
    for row in range(rows + 1):
        y = row * row_height
        latitude = latitude_of(top + y)
        runs = [run for ring in land for run in runs_of(ring, latitude)]
        start = None
        for column in range(WIDTH // STEP + 2):
            x = column * STEP + (STEP // 2 if row % 2 else 0)
            is_land = x <= WIDTH and _is_inside(runs, _longitude(x, latitude))
            if is_land and start is None:
                start = x
            if not is_land and start is not None:
                path.append(f"M{start} {y + STEP:.0f}h{x - start - STEP + 1}")
                start = None
    return "".join(path), top - STEP, round(bottom - top + 2 * STEP)


def _longitude(x: float, latitude: float) -> float:
    length = (project(EAST_OF + 359.99, latitude)[0] - WIDTH / 2) / math.radians(179.99)
    turned = math.degrees((x - WIDTH / 2) / length)
    return 999.0 if abs(turned) > 180 else (turned + 180 + EAST_OF + 180) % 360 - 180


def _is_inside(runs: list[tuple[float, float]], longitude: float) -> bool:
    """A point in an even number of rings is in a lake."""
    turns = (longitude - 360, longitude, longitude + 360)
    return longitude < 999 and sum(west < each < east for west, east in runs for each in turns) % 2 == 1


def largest(polygons: Iterable[list[Ring]]) -> Ring:
    return max((polygon[0] for polygon in polygons), key=lambda ring: abs(area(ring)))


def centre(outline: Ring) -> tuple[float, float]:
    """The middle of a country. It is always inside."""
    edges = list(zip(outline, [*outline[1:], outline[0]], strict=True))
    whole = sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in edges)
    x = sum((x1 + x2) * (x1 * y2 - x2 * y1) for (x1, y1), (x2, y2) in edges) / (3 * whole)
    y = sum((y1 + y2) * (x1 * y2 - x2 * y1) for (x1, y1), (x2, y2) in edges) / (3 * whole)
    runs = runs_of(outline, y)
    if _is_inside(runs, x):
        return x, y
    west, east = max(runs, key=lambda run: run[1] - run[0])
    return (west + east) / 2, y


def area(ring: Ring) -> float:
    flat = [(x * math.cos(math.radians(y)), y) for x, y in ring]
    return sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in zip(flat, [*flat[1:], flat[0]], strict=True)) / 2


def main(folder: Path) -> None:
    atlas = json.loads((folder / "land-50m.json").read_text())
    geometries = atlas["objects"]["land"]["geometries"]
    path, top, height = draw([ring for each in geometries for polygon in rings_of(atlas, each) for ring in polygon])
    (ROOT / "web" / "static" / "world.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">'
        f'<path id="land" fill="none" stroke-width="4" stroke-linecap="round" stroke-dasharray="0 {STEP}" d="{path}"/>'
        "</svg>\n"
    )
    atlas = json.loads((folder / "countries-50m.json").read_text())
    codes = get_global("territory_aliases")
    outlines: dict[str, Ring] = {}
    for country in atlas["objects"]["countries"]["geometries"]:
        code = codes.get(country.get("id", ""), [""])[0]
        if len(code) == 2 and code != "AQ" and "arcs" in country:
            # Some islands have the number of the country that they belong to.
            outline = largest(rings_of(atlas, country))
            outlines[code] = max(outlines.get(code, outline), outline, key=lambda ring: abs(area(ring)))
    centres = {code: centre(outline) for code, outline in sorted(outlines.items())}
    lines = ["# Made by tools/draw_world.py. Country, degrees north and east of its middle."]
    lines += [f"{code} {y:.2f} {(x + 180) % 360 - 180:.2f}" for code, (x, y) in centres.items()]
    (ROOT / "catalog" / "country_centres.txt").write_text("\n".join(lines) + "\n")
    places = {code: project(*point) for code, point in centres.items()}
    lines = [f"# Made by tools/draw_world.py. Country, x and y on a map of {WIDTH} by {height}."]
    lines += [f"{code} {x:.0f} {y - top:.0f}" for code, (x, y) in places.items()]
    (ROOT / "sustainability" / "country_places.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
