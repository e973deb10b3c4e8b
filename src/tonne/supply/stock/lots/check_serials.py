"""What a serial says must be what its line and its project say. No I/O."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.values.amounts import GRAMS_PER_TONNE, format_tonnes
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.countries import country_code
from tonne.selling.catalogue.imports.project_rows import ProjectRow
from tonne.supply.stock.lots.lots import MAX_LOT_UNITS, LotRow, LotUnits
from tonne_verify.serials.facts import country_records, is_project
from tonne_verify.serials.parse import is_made_up, is_of_demo, parse, parse_block
from tonne_verify.serials.units import SerialError, UnitRange

_REMEDY = "correct one of the two."


class Disagreement(Exception):
    """A line whose serial cannot be read, or says something else than the line or its project."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column = column


def read_units(row: LotRow, project: ProjectRow | None, mode: Mode, *, is_demo: bool = False) -> LotUnits:
    """Raises Disagreement. `project` is None if it is not known, which is an error of its own.

    `is_demo`: live lots may have the made-up serials of a demo.
    """
    column = "serial_block" if row.serial is None else "serial"
    unit_grams = GRAMS_PER_TONNE if project is None else project.granularity_grams
    try:
        if row.serial is not None:
            units = parse(row.registry, row.serial, unit_grams=unit_grams)
        else:
            block, first, last = row.serial_block or "", row.first_number or 0, row.last_number or 0
            units = parse_block(row.registry, block, first, last, unit_grams=unit_grams)
    except SerialError as error:
        raise Disagreement(column, str(error)) from error
    if mode is Mode.LIVE and (is_made_up(row.registry, units) or (is_of_demo(units) and not is_demo)):
        raise Disagreement(
            column, f"{quoted(units.text)} is made up, and no serial of {row.registry}: enter the real one."
        )
    if project is not None and not project.is_issued:
        message = f"its offset_delivery is {project.offset_delivery}: credits that are not issued yet are no lots."
        raise Disagreement("registry_project_id", message)
    units = settle_quantity(units, row.quantity)
    if units.last - units.first >= MAX_LOT_UNITS:
        raise Disagreement(column, f"the lot has more than {MAX_LOT_UNITS:,} units: split it into smaller lots.")
    if project is not None:
        stated = Stated(
            row.registry_project_id,
            project.serial_project,
            row.vintage,
            row.country or project.country,
            project.granularity_grams,
        )
        for name, message in disagreements(units, stated):
            raise Disagreement(name or column, message)
    spelt = replace(row, serial=units.text, serial_block=None, first_number=None, last_number=None, quantity=None)
    return LotUnits(spelt, units)


def settle_quantity(units: UnitRange, quantity: Decimal | None) -> UnitRange:
    """The units, whose quantity must be that of the line, in tonnes. Raises Disagreement.

    Of Isometric's serials the quantity decides whether the last number is included.
    """
    if quantity is None:
        if units.grammar == "isometric":
            message = "the cell is empty: enter the tonnes, because the serial does not say if its last number counts."
            raise Disagreement("quantity", message)
        return units
    grams = quantity * GRAMS_PER_TONNE
    if units.grammar == "isometric" and grams == (units.last - units.first) * units.unit_grams > 0:
        return units.part(units.first, units.last - 1)
    if grams != units.quantity_grams:
        counted = format_tonnes(units.quantity_grams)
        raise Disagreement("quantity", f"the serial has {counted} t, the line {quantity} t: {_REMEDY}")
    return units


class Stated(NamedTuple):
    """What a lot and its project say about the units."""

    registry_project_id: str
    serial_project: str | None
    vintage: int
    country: str
    granularity_grams: int


def disagreements(units: UnitRange, stated: Stated) -> Iterator[tuple[str, str]]:
    """A column of lots.csv, and what the serial and the catalogue say. The column is empty for the serial itself."""
    if units.unit_grams != stated.granularity_grams:
        yield (
            "",
            (
                f"a unit of the serial is {units.unit_grams} g, granularity_grams of the project "
                f"{stated.granularity_grams}: correct the project."
            ),
        )
    if units.project_id is not None and not is_project(
        units.project_id, stated.registry_project_id, stated.serial_project
    ):
        yield (
            "registry_project_id",
            (
                f"the serial is of project {units.project_id}, the line of {stated.registry_project_id}: correct one "
                f"of the two, or enter {units.project_id} as serial_project of the project."
            ),
        )
    if units.country is not None and _is_other_country(units.country, stated.country):
        yield (
            "country",
            (f"the serial is of the country {units.country}, the lot of {quoted(stated.country)}: {_REMEDY}"),
        )
    if units.vintage is not None and not units.vintage[0].year <= stated.vintage <= units.vintage[1].year:
        years = " to ".join(dict.fromkeys(str(day.year) for day in units.vintage))
        yield "vintage", f"the serial is of {years}, the line of {stated.vintage}: {_REMEDY}"


def _is_other_country(found: str, name: str) -> bool:
    """Countries that the catalogue does not know cannot be compared."""
    code = country_code(name)
    known = country_records().get(code)
    return bool(code) and found not in {code, code if known is None else known.iso3}
