"""A line about what the operator retired at a registry."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, ClassVar

from tonne.platform.documents.sheets.columns import CellError, Column, Label, parse_date, parse_web_url, quoted, text
from tonne.platform.documents.sheets.read_sheet import Row, Values
from tonne.platform.values.urls import MAX_URL_LENGTH
from tonne.supply.stock.lots.lots import SerialNumber, check_retired_on
from tonne.supply.stock.serial_runs import Numbers, parse_runs

_IF_EMPTY = "the cell is empty: fill it in, or delete the line until the parcel is retired."


def parse_registry_url(cell: str) -> str:
    url = parse_web_url(cell)
    if not url.startswith("https://"):
        raise CellError(f"{quoted(cell)} does not begin with https://: enter the address of the registry's page.")
    return url


def _runs(cell: str) -> list[Numbers]:
    runs = parse_runs(cell)
    if runs is None:
        raise CellError(f"{quoted(cell)} are not serial numbers: write them as 101 to 300; 351, without the block.")
    return runs


Runs = Annotated[list[Numbers], Column(_runs)]
# A shared unit names many.
MAX_BENEFICIARY = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRow(Row):
    """A parcel may have several lines, if the registry retired it in parts."""

    KEY: ClassVar[tuple[str, ...]] = ("first_number", "parcel_id")

    parcel_id: Label
    serial_block: Annotated[str, Column(text(MAX_URL_LENGTH))]
    first_number: SerialNumber
    last_number: SerialNumber
    retired_on: Annotated[date, Column(parse_date, if_empty=_IF_EMPTY)]
    retirement_url: Annotated[str, Column(parse_registry_url, if_empty=_IF_EMPTY)]
    # As exported: the runs from `first_number` to `last_number`.
    serials: Runs | None = None
    # What the registry retired, if it differs.
    retired_serials: Runs | None = None
    # As exported.
    beneficiary: Annotated[str, Column(text(MAX_BENEFICIARY))] | None = None

    @property
    def numbers(self) -> list[Numbers]:
        """The serials that were retired. Edited numbers count instead of the exported runs."""
        whole = (self.first_number, self.last_number)
        if self.retired_serials is not None:
            return self.retired_serials
        is_as_exported = self.serials is not None and (self.serials[0][0], self.serials[-1][1]) == whole
        return self.serials if self.serials is not None and is_as_exported else [whole]


def check_row(latest: date, values: Values) -> Iterator[tuple[str, str]]:
    if "retired_on" in values:
        yield from check_retired_on(values["retired_on"], latest)
    first, last = values.get("first_number"), values.get("last_number")
    if first is not None and last is not None and last < first:
        yield "last_number", "it is below first_number: swap or correct the two."
