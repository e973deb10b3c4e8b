"""How the serial numbers of registry credits are printed."""

from msgspec import Struct

from tonne.platform.values.amounts import GRAMS_PER_TONNE


def serial_range(block: str, first_number: int, start_grams: int, quantity_grams: int) -> str:
    """The serial numbers of a parcel as printed: `BLOCK 17–18`, or `BLOCK 17 (kg 1–250)` for a part of a tonne."""
    end_grams = start_grams + quantity_grams
    first, last = first_number + start_grams // GRAMS_PER_TONNE, first_number + (end_grams - 1) // GRAMS_PER_TONNE
    numbers = str(first) if first == last else f"{first}–{last}"
    part = part_of_tonnes(start_grams, quantity_grams)
    return f"{block} {numbers}" if part is None else f"{block} {numbers} ({part.unit} {part.first}–{part.last})"


class PartOfTonnes(Struct, frozen=True):
    """The first and the last unit of a parcel, each numbered within its tonne, as registries of small units do."""

    unit: str
    first: int
    last: int


def part_of_tonnes(start_grams: int, quantity_grams: int) -> PartOfTonnes | None:
    """None for whole tonnes. In kilograms, or in grams if two parcels could otherwise have the same numbers."""
    end_grams = start_grams + quantity_grams
    if start_grams % GRAMS_PER_TONNE == 0 and end_grams % GRAMS_PER_TONNE == 0:
        return None
    unit, grams = ("kg", 1000) if start_grams % 1000 == 0 and end_grams % 1000 == 0 else ("g", 1)
    first = start_grams % GRAMS_PER_TONNE // grams + 1
    return PartOfTonnes(unit, first, (end_grams - 1) % GRAMS_PER_TONNE // grams + 1)
