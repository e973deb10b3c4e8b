"""Lots, and the parcels taken from them: whole registry units that are retired together."""

from datetime import date, datetime
from enum import StrEnum

from msgspec import Struct


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


class Lot(Struct):
    """`allocated_grams` increases with every parcel; the rest of the lot is free."""

    id: str
    project_id: str
    vintage: int
    status: LotStatus
    quantity_grams: int
    allocated_grams: int
    retired_on: date | None
    retirement_url: str | None


class Parcel(Struct):
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


class Share(Struct, frozen=True):
    """The grams of a parcel that belong to one line of an order."""

    line_position: int
    parcel: Parcel
    quantity_grams: int
