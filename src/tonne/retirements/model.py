"""Lots, and the parcels taken from them: whole registry units that are retired together."""

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from tonne.base.mass import GRAMS_PER_TONNE


class LotStatus(StrEnum):
    HELD = "held"
    PRE_RETIRED = "pre_retired"


class ParcelStatus(StrEnum):
    # A pooled unit with room for more fractions of its account.
    OPEN = "open"
    # On the operator's work list.
    TO_RETIRE = "to_retire"
    RETIRED = "retired"
    # Not retired when its lot was invalidated. Its orders get credits of other lots.
    INVALID = "invalid"


@dataclass(slots=True)
class Lot:
    """`allocated_grams` increases with every parcel; the rest of the lot is free."""

    id: str
    project_id: str
    vintage: int
    status: LotStatus
    quantity_grams: int
    allocated_grams: int
    retired_on: date | None
    retirement_url: str | None


@dataclass(slots=True)
class Parcel:
    """`allocated_grams` belong to orders: all of the parcel, or less in a pooled unit.

    `account_id` is None for a unit in the service's name, which takes fractions of every account.
    """

    id: str
    lot_id: str
    project_id: str
    start_grams: int
    quantity_grams: int
    allocated_grams: int
    account_id: str | None
    beneficiary: str
    status: ParcelStatus
    close_at: datetime | None
    retired_on: date | None
    retirement_url: str | None
    is_new: bool = False

    @property
    def room_grams(self) -> int:
        return self.quantity_grams - self.allocated_grams


@dataclass(frozen=True, slots=True)
class Share:
    """The grams of a parcel that belong to one line of an order."""

    line_position: int
    parcel: Parcel
    quantity_grams: int


def serial_range(block: str, first_number: int, start_grams: int, quantity_grams: int) -> str:
    """The serial numbers of a parcel as printed: `BLOCK 17–18`, or `BLOCK 17 (kg 1–250)` for a part of a tonne."""
    end_grams = start_grams + quantity_grams
    first, last = first_number + start_grams // GRAMS_PER_TONNE, first_number + (end_grams - 1) // GRAMS_PER_TONNE
    numbers = str(first) if first == last else f"{first}–{last}"
    part = part_of_tonnes(start_grams, quantity_grams)
    return f"{block} {numbers}" if part is None else f"{block} {numbers} ({part.unit} {part.first}–{part.last})"


@dataclass(frozen=True, slots=True)
class PartOfTonnes:
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
