"""A line about what the operator retired at a registry."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Annotated, ClassVar

from tonne.platform.documents.sheets.columns import CellError, Column, Label, parse_date, parse_web_url, quoted, text
from tonne.platform.documents.sheets.read_sheet import Row, Values
from tonne.platform.values.urls import MAX_URL_LENGTH
from tonne.supply.stock.lots.lots import check_retired_on
from tonne.supply.stock.serial_runs import Numbers, SerialRun, format_runs, parse_runs
from tonne_verify.serials.parse import parse
from tonne_verify.serials.units import SerialError

_IF_EMPTY = "the cell is empty: fill it in, or delete the line until the parcel is retired."


def parse_registry_url(cell: str) -> str:
    url = parse_web_url(cell)
    if not url.startswith("https://"):
        raise CellError(f"{quoted(cell)} does not begin with https://: enter the address of the registry's page.")
    return url


_NUMBERS = re.compile(r"(?:[0-9\s;,.\u2010-\u2015\u2212-]|to)+")


def _runs(cell: str) -> list[Numbers]:
    runs = parse_runs(cell)
    if runs is None:
        raise CellError(f"{quoted(cell)} are not numbers of units: write them as 101 to 300; 351.")
    return runs


def _retired(cell: str) -> list[Numbers | str]:
    is_of_numbers = _NUMBERS.fullmatch(cell) is not None
    return [*_runs(cell)] if is_of_numbers else [part.strip() for part in cell.split(";")]


# A shared unit names many.
MAX_BENEFICIARY = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRow(Row):
    """A parcel may have several lines, if the registry retired it in parts."""

    KEY: ClassVar[tuple[str, ...]] = ("serial", "parcel_id")

    parcel_id: Label
    serial: Annotated[str, Column(text(MAX_URL_LENGTH))]
    retired_on: Annotated[date, Column(parse_date, if_empty=_IF_EMPTY)]
    # None only from a gateway whose registry has no page of the retirement.
    retirement_url: Annotated[str | None, Column(parse_registry_url, if_empty=_IF_EMPTY)]
    # As exported: the numbers of the runs of `serial`.
    serials: Annotated[list[Numbers], Column(_runs)] | None = None
    # What the registry retired, if it differs: numbers in the frame of `serial`, or whole serials.
    retired_serials: Annotated[list[Numbers | str], Column(_retired)] | None = None
    # As exported.
    beneficiary: Annotated[str, Column(text(MAX_BENEFICIARY))] | None = None

    @property
    def shown(self) -> str:
        if self.retired_serials is None:
            return self.serial
        parts = [each if isinstance(each, str) else format_runs([each]) for each in self.retired_serials]
        return f"{'; '.join(parts)} ({self.serial})"

    def runs(self, registry: str, unit_grams: int) -> list[SerialRun]:
        """The units that were retired. An edited serial counts instead of the exported runs. Raises SerialError."""
        whole = _read(registry, self.serial, unit_grams)
        if self.retired_serials is not None:
            return _joined(
                _read(registry, each, unit_grams) if isinstance(each, str) else SerialRun(whole.namespace, *each)
                for each in self.retired_serials
            )
        if self.serials and (self.serials[0][0], self.serials[-1][1]) == (whole.first, whole.last):
            return [SerialRun(whole.namespace, *each) for each in self.serials]
        return [whole]


def _read(registry: str, serial: str, unit_grams: int) -> SerialRun:
    units = parse(registry, serial, unit_grams=unit_grams)
    return SerialRun(units.namespace, units.first, units.last)


def _joined(runs: Iterable[SerialRun]) -> list[SerialRun]:
    ordered = sorted(runs, key=lambda run: (run.namespace, run.first))
    for before, after in pairwise(ordered):
        if before.common(after):
            raise SerialError(f"the numbers {after.first} to {before.last} occur twice: correct the cell.")
    return ordered


def check_row(latest: date, values: Values) -> Iterator[tuple[str, str]]:
    if "retired_on" in values:
        yield from check_retired_on(values["retired_on"], latest)
