"""Units of activities: `km`, `person*km`, `kWh`. A unit is a product of the names below, and nothing else is parsed."""

from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tonne.platform.values.amounts import DECIMALS
from tonne.selling.estimates.factors.errors import UnitInvalid, UnitMismatch

if TYPE_CHECKING:
    from pint import UnitRegistry

MAX_PARTS = 3
# Every name, by what it measures. `pint` knows how large they are.
_KINDS = {
    "distance": ("m", "km", "mi", "nmi"),
    "energy": ("Wh", "kWh", "MWh", "GWh", "MJ", "GJ", "TJ"),
    "mass": ("g", "kg", "t", "lb"),
    "volume": ("l", "m3", "gal"),
    "area": ("m2", "ha"),
    "time": ("h", "day", "night", "month", "year", "working_hour"),
    "person": ("person",),
    "vehicle": ("vehicle",),
    "room": ("room",),
    "fte": ("fte",),
    "container": ("TEU",),
    "item": ("item",),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names} | dict.fromkeys(DECIMALS, "currency")
_ALIASES = {
    **dict.fromkeys(("passenger", "passengers", "persons"), "person"),
    **dict.fromkeys(("tonne", "tonnes"), "t"),
    **dict.fromkeys(("mile", "miles"), "mi"),
    **dict.fromkeys(("nm", "nautical_mile"), "nmi"),
    **dict.fromkeys(("litre", "litres", "liter", "liters", "L"), "l"),
    **dict.fromkeys(("nights",), "night"),
    **dict.fromkeys(("rooms",), "room"),
    **dict.fromkeys(("hour", "hours"), "h"),
    **dict.fromkeys(("days",), "day"),
    **dict.fromkeys(("years",), "year"),
    **dict.fromkeys(("months",), "month"),
}
# As publishers write them.
_SPELLINGS = {
    "Room per night": "room*night",
    "per FTE Working Hour": "fte*working_hour",
    "tkm": "t*km",
    "pkm": "person*km",
    "vkm": "vehicle*km",
}
# A night is as long as a day, a working hour is an hour.
_PINT_NAMES = {
    "m3": "m**3",
    "m2": "m**2",
    "gal": "gallon",
    "h": "hour",
    "ha": "hectare",
    "night": "day",
    "working_hour": "hour",
}


def parse_unit(text: str) -> str:
    """The unit in the spelling of the API. Raises UnitInvalid."""
    spelled = _SPELLINGS.get(text, text)
    parts = [_ALIASES.get(part, part) for part in spelled.replace(".", "*").split("*")]
    unknown = next((part for part in parts if part not in _KIND_OF), None)
    if unknown is not None or len(parts) > MAX_PARTS:
        raise UnitInvalid
    return "*".join(parts)


def measures(unit: str) -> str:
    """What a unit measures: `distance` for km, `person-distance` for person*km."""
    return "-".join(_KIND_OF[part] for part in unit.split("*"))


def convert(value: Decimal, unit: str, to: str) -> Decimal:
    """Exact. Raises UnitMismatch if the units measure different things."""
    return value if unit == to else value * _ratio(unit, to)


@lru_cache(1024)
def _ratio(unit: str, to: str) -> Decimal:
    ratio = Decimal(1)
    # A distance is often published per vehicle without saying so.
    pairs = [[part for part in each.split("*") if part != "vehicle"] for each in (unit, to)]
    if len(pairs[0]) == len(pairs[1]):
        by_kind = {_KIND_OF[part]: part for part in pairs[0]}
        for requested in pairs[1]:
            part = by_kind.pop(_KIND_OF[requested], "")
            # An amount of another currency needs an exchange rate.
            if not part or (part != requested and _KIND_OF[part] == "currency"):
                break
            ratio *= _size(part, requested)
        else:
            return ratio
    raise UnitMismatch(
        f"The emission factor is per {to}, but the activity is in {unit}, which cannot be converted. Send the activity "
        f"in {to}, or in another unit that measures the same."
    )


def _size(part: str, requested: str) -> Decimal:
    if part == requested:
        return Decimal(1)
    names = [_PINT_NAMES.get(each, each) for each in (part, requested)]
    size: Any = load_units().Quantity(Decimal(1), names[0]).to(names[1]).magnitude
    return Decimal(size)


@lru_cache(1)
def load_units() -> "UnitRegistry[Any]":
    # Imported here: with the registry it takes half a second, and most processes never convert a unit.
    from pint import UnitRegistry  # noqa: PLC0415 - see above

    return UnitRegistry(non_int_type=Decimal)
