"""Cities with at least 15,000 inhabitants, by any of their names, of GeoNames."""

from array import array
from bisect import bisect_left
from functools import cache

import msgspec

from tonne.selling.estimates.geography.countries import alpha_2_codes, find_country
from tonne.selling.estimates.geography.extracts import read_extract
from tonne.selling.estimates.geography.model import Coordinates, Location


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
