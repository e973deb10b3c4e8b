"""What a serial says, and how a part of it is printed."""

from datetime import date
from typing import NamedTuple

TONNE_GRAMS = 1_000_000
KILOGRAM_GRAMS = 1_000


class SerialError(Exception):
    """The message says what is wrong with the text, and what to write instead."""


class UnitRange(NamedTuple):
    """Consecutive units of a registry. Numbers are unique within `namespace`, which is the same for all spellings.

    `before`, `between` and `after` are the text around the two numbers, which have at least `width` digits. Facts that
    the serial does not have are None.
    """

    grammar: str
    namespace: str
    first: int
    last: int
    unit_grams: int
    before: str
    between: str
    after: str = ""
    width: int = 1
    country: str | None = None
    project_id: str | None = None
    # The first and the last day.
    vintage: tuple[date, date] | None = None

    @property
    def quantity_grams(self) -> int:
        return (self.last - self.first + 1) * self.unit_grams

    @property
    def text(self) -> str:
        return show(self, self.first, self.last)

    def part(self, first: int, last: int) -> "UnitRange":
        return self._replace(first=first, last=last)


def show(units: UnitRange, first: int, last: int) -> str:
    """These units of the range as the search of the registry finds them."""
    numbers = f"{first:0{units.width}}{units.between}{last:0{units.width}}"
    if units.grammar == "plain" and first == last:
        numbers = str(first)
    return f"{units.before}{numbers}{units.after}"
