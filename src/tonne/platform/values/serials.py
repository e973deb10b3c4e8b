"""The serials of parts of lots, as registries write them."""

from tonne_verify.serials.parse import stored_units
from tonne_verify.serials.units import UnitRange


def units_of_part(lot: UnitRange, start_grams: int, quantity_grams: int) -> UnitRange:
    """Of whole units. `start_grams` counts from the first unit of the lot."""
    first = lot.first + start_grams // lot.unit_grams
    return lot.part(first, first + quantity_grams // lot.unit_grams - 1)


def serial_range(registry: str, serial: str, unit_grams: int, start_grams: int, quantity_grams: int) -> str:
    """The serial of a parcel, of a lot with this serial."""
    return units_of_part(stored_units(registry, serial, unit_grams), start_grams, quantity_grams).text
