"""Places as clients write them, and the locations that they mean.

Airports are those of the package airportsdata, by IATA and ICAO code; ports those of the package searoute, by
UN/LOCODE; cities those of GeoNames with at least 15,000 inhabitants, by any of their names.
"""

import csv
import io
import re
from array import array
from bisect import bisect_left
from functools import cache, lru_cache
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.estimates.geography import errors
from tonne.selling.estimates.geography.countries import alpha_2_codes, find_country
from tonne.selling.estimates.geography.extracts import read_extract
from tonne.selling.estimates.geography.model import Coordinates, Location
from tonne.selling.estimates.geography.sea_distance import MAX_CACHED_POINTS, haversine_km, nearest_lane, sea_network

# A few places in the list are terminals far from any sea. Ships reach the others on rivers and canals.
SEA_ACCESS_KM = 300
# How far away a place may be that is shipped from a port, and how far that port may be from the sea.
NEAR_KM = 100


class Port(msgspec.Struct, frozen=True):
    locode: str
    location: Location


@cache
def _ports() -> dict[str, Port]:
    rows = csv.reader(io.StringIO(read_extract("ports.csv").decode("utf-8")))
    next(rows)
    return {
        code: Port(code, Location(f"{name} ({code})", Coordinates(float(lat), float(lon)), code[:2]))
        for code, name, lat, lon in rows
    }


def find_port(locode: str) -> Port | None:
    """`NLRTM` or `NL RTM`, in any case."""
    return _ports().get(locode.upper().replace(" ", ""))


def count_ports() -> int:
    return len(_ports())


def is_at_sea(port: Port) -> bool:
    return _km_to_lanes(port.location.coordinates) <= SEA_ACCESS_KM


@lru_cache(maxsize=MAX_CACHED_POINTS)
def nearest_port(point: Coordinates) -> Port | None:
    """The nearest port at sea, or None if there is none within `NEAR_KM`."""
    near = sorted(
        (km, port.locode, port)
        for port in _ports().values()
        if (km := haversine_km(point, port.location.coordinates)) <= NEAR_KM
    )
    return next((port for _, _, port in near if _km_to_lanes(port.location.coordinates) <= NEAR_KM), None)


def _km_to_lanes(point: Coordinates) -> float:
    return haversine_km(point, sea_network().points[nearest_lane(point)])


class _City(msgspec.Struct, array_like=True):
    name: str
    latitude: float
    longitude: float
    countrycode: str
    population: int
    alternatenames: list[str]


class CityIndex:
    """Sorted hashes of country and name: 350,000 names take 4 MB, as a dictionary of texts they would take 60.

    Two names collide with a probability of about one in a hundred million.
    """

    def __init__(self, raw: bytes) -> None:
        # City by city: all cities decoded at once would take 80 MB.
        decoder = msgspec.json.Decoder(_City)
        self._rows: list[tuple[int, Location]] = []
        hashes, rows = array("q"), array("I")
        for row, text in enumerate(raw.splitlines()):
            city = decoder.decode(text)
            location = Location(city.name, Coordinates(city.latitude, city.longitude), city.countrycode)
            self._rows.append((city.population, location))
            # The names in the file have no spaces to remove.
            names = {name.casefold() for name in (city.name, *city.alternatenames)}
            hashes.extend([hash((city.countrycode, name)) for name in names])
            rows.extend([row] * len(names))
        order = sorted(range(len(hashes)), key=hashes.__getitem__)
        self._hashes = array("q", map(hashes.__getitem__, order))
        self._entry_rows = array("I", map(rows.__getitem__, order))

    def find(self, name: str, country: str) -> tuple[int, Location] | None:
        """The largest city of that name, with its population."""
        requested = hash((country, folded(name)))
        place = bisect_left(self._hashes, requested)
        found = []
        while place < len(self._hashes) and self._hashes[place] == requested:
            found.append(self._rows[self._entry_rows[place]])
            place += 1
        return max(found, key=lambda each: each[0], default=None)


def folded(name: str) -> str:
    return " ".join(name.casefold().split())


@cache
def _index() -> CityIndex:
    return CityIndex(read_extract("cities.jsonl"))


def find_city(name: str, country_code: str | None) -> Location | None:
    """The largest city of that name in the country, or in the world if no country is given.

    The first call reads the cities, which takes about a second of CPU: call it through `asyncio.to_thread`.
    """
    if not folded(name):
        return None
    if country_code is not None:
        country = find_country(country_code)
        found = None if country is None else _index().find(name, country.iso)
        return None if found is None else found[1]
    index = _index()
    matches = [match for code in alpha_2_codes() if (match := index.find(name, code)) is not None]
    return max(matches, key=lambda each: each[0], default=(0, None))[1]


class Airport(NamedTuple):
    """`code` is the IATA code, or the ICAO code of an airport without one. `country` is ISO 3166-1 alpha-2."""

    code: str
    name: str
    country: str
    coordinates: Coordinates


@cache
def load_airports() -> dict[str, Airport]:
    """By both codes. They have different lengths. Takes 0.1 s: 28,000 rows."""
    airports: dict[str, Airport] = {}
    rows = csv.reader(io.StringIO(read_extract("airports.csv").decode("utf-8")))
    next(rows)
    for icao, iata, name, country, lat, lon in rows:
        airports[icao] = Airport(iata or icao, name, country, Coordinates(float(lat), float(lon)))
        if iata:
            airports[iata] = airports[icao]
    return airports


def find_airport(code: str) -> Airport | None:
    """By IATA or ICAO code, in any case."""
    return load_airports().get(code.strip().upper())


_DEGREES = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,12})?", re.ASCII)


def _read_degrees(value: Any, limit: int) -> float:
    if not isinstance(value, str) or not _DEGREES.fullmatch(value) or abs(float(value)) > limit:
        raise ValueError(f"expected a number between -{limit} and {limit}")
    return float(value)


def read_latitude(value: Any) -> float:
    return _read_degrees(value, 90)


def read_longitude(value: Any) -> float:
    return _read_degrees(value, 180)


Latitude = Annotated[float, read_latitude, Meta(ge=-90, le=90, description="Degrees north.", examples=[52.52])]
Longitude = Annotated[float, read_longitude, Meta(ge=-180, le=180, description="Degrees east.", examples=[13.41])]
AddressLine = Annotated[str, Meta(max_length=200)]
CountryCode = Annotated[
    str, Meta(pattern="^[A-Za-z]{2,3}$", description="ISO 3166-1 alpha-3 code, or alpha-2.", examples=["DEU"])
]


class PlaceIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of: `code`; `locode`; `lat` and `lon`; an address with at least a `city`."""

    code: Annotated[
        Annotated[str, Meta(max_length=10)] | None,
        Meta(description="IATA or ICAO code of an airport.", examples=["BER"]),
    ] = None
    locode: Annotated[
        Annotated[str, Meta(max_length=10)] | None,
        Meta(description="UN/LOCODE of a port.", examples=["NLRTM"]),
    ] = None
    lat: Latitude | None = None
    lon: Longitude | None = None
    city: Annotated[AddressLine | None, Meta(description="Name of a city, in any language.", examples=["Berlin"])] = (
        None
    )
    country_code: CountryCode | None = None
    postcode: Annotated[AddressLine | None, Meta(description="Not used to find the place.", examples=["10115"])] = None
    street_line1: Annotated[
        AddressLine | None, Meta(description="Not used to find the place.", examples=["Invalidenstraße 1"])
    ] = None
    street_line2: Annotated[
        AddressLine | None, Meta(description="Not used to find the place.", examples=["2nd floor"])
    ] = None


_ADDRESS = ("city", "postcode", "street_line1", "street_line2")


def resolve_place(place: PlaceIn, field: str) -> Location:
    """`field` is the path of the place in the request, which ends in `source` or `destination`.

    May read the list of cities: call it through `asyncio.to_thread`.
    """
    forms = [
        place.code is not None,
        place.locode is not None,
        place.lat is not None or place.lon is not None,
        any(getattr(place, name) is not None for name in _ADDRESS),
    ]
    # A country alone is an address that lacks its city. Beside coordinates it says where they are.
    if not any(forms) and place.country_code is not None:
        return _city(place, field)
    if sum(forms) != 1:
        message = f"{field} needs exactly one of code, locode, lat and lon, or an address with a city."
        raise Invalid([Fault("validation_error", message, field)])
    if place.code is not None:
        return _airport(place.code, field)
    if place.locode is not None:
        return resolve_port(place.locode, field).location
    if place.lat is not None or place.lon is not None:
        if place.lat is None or place.lon is None:
            missing = "lat" if place.lat is None else "lon"
            raise Invalid([Fault("validation_error", f"{field}.{missing} is required.", f"{field}.{missing}")])
        return Location(None, Coordinates(place.lat, place.lon), _alpha_2(place.country_code, field))
    return _city(place, field)


def resolve_port(locode: str, field: str) -> Port:
    port = find_port(locode)
    if port is None:
        raise errors.LocodeNotFound(field=f"{field}.locode")
    return port


def _city(place: PlaceIn, field: str) -> Location:
    if place.city is None:
        raise errors.AddressNotFound(
            "An address is found by its city: send the city and its country_code.", field=field
        )
    found = find_city(place.city, _alpha_2(place.country_code, field))
    if found is None:
        raise errors.AddressNotFound(field=f"{field}.city")
    return found


def _alpha_2(country_code: str | None, field: str) -> str | None:
    country = None if country_code is None else find_country(country_code)
    if country_code is not None and country is None:
        message = "There is no country with this code. Send an ISO 3166-1 code such as DEU."
        raise errors.AddressNotFound(message, field=f"{field}.country_code")
    return None if country is None else country.iso


def _airport(code: str, field: str) -> Location:
    airport = find_airport(code)
    if airport is None:
        error = errors.DestinationCodeInvalid if field.endswith("destination") else errors.SourceCodeInvalid
        raise error(field=f"{field}.code")
    return Location(f"{airport.name} ({airport.code})", airport.coordinates, airport.country)
