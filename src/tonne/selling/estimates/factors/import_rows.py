"""Import emission factors from a CSV file, or those of the package: report every error first, then add versions."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Annotated, ClassVar

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import (
    CellError,
    Column,
    RowError,
    SheetInvalid,
    precision_error,
    quoted,
    text,
    whole,
)
from tonne.platform.documents.sheets.read_sheet import Row, RowChanges, Sheet, SheetFile, Values, compare, read_sheet
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import parse_decimal
from tonne.platform.values.context import By, same_named
from tonne.selling.estimates.factors import store
from tonne.selling.estimates.factors.errors import UnitInvalid
from tonne.selling.estimates.factors.model import Factor, FactorSet
from tonne.selling.estimates.factors.units import parse_unit
from tonne.selling.estimates.geography.countries import alpha_3

MAX_KG = 10**9
DECIMALS = 12
# When the file of the package was added to it.
SHIPPED_AT = datetime(2026, 11, 17, tzinfo=UTC)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*", re.ASCII)
_REGION = re.compile(r"[A-Z]{3}", re.ASCII)
_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_NOT_IN_CODE = re.compile(r"[^a-z0-9]+")
# Clients know the UK government's factors by the name of the ministry that published them first.
_CODES = {"desnz": "beis", "defra": "beis", "beis": "beis"}


def _id(cell: str) -> str:
    if len(cell) > 200 or not _ID.fullmatch(cell):
        raise CellError(f"{quoted(cell)} is not an id: use letters, digits, hyphens, dots and single slashes.")
    return cell


def _unit(cell: str) -> str:
    try:
        return parse_unit(cell)
    except UnitInvalid as error:
        message = f"{quoted(cell)} is not a known unit: write one such as kWh, km, t*km, person*km or room*night."
        raise CellError(message) from error


def _kilograms(cell: str) -> Decimal:
    number = parse_decimal(cell)
    if number is None or number > MAX_KG:
        raise CellError(f"{quoted(cell)} is not a number of kilograms: write one such as 0.12576.")
    if message := precision_error(number, DECIMALS):
        raise CellError(message)
    # Compared with what is stored, so without trailing zeros.
    return number.normalize() + 0 if number else Decimal(0)


def _region(cell: str) -> str:
    region = alpha_3(cell) or cell.upper()
    if not _REGION.fullmatch(region):
        raise CellError(f"{quoted(cell)} is not a region: write an ISO 3166 code such as DEU, or WLD.")
    return region


def _code(cell: str) -> str:
    if len(cell) > 40 or not _CODE.fullmatch(cell):
        raise CellError(f"{quoted(cell)} is not a code: use lower-case letters, digits and hyphens, as in ademe.")
    return cell


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("id",)

    id: Annotated[str, Column(_id)]
    category: Annotated[str, Column(text(100))]
    activity: Annotated[str, Column(text(300))]
    unit: Annotated[str, Column(_unit)]
    kg_co2e_per_unit: Annotated[Decimal, Column(_kilograms)]
    well_to_tank_kg_co2e_per_unit: Annotated[Decimal, Column(_kilograms)] | None
    region: Annotated[str, Column(_region)]
    year: Annotated[int, Column(whole(1990, 2100))]
    source: Annotated[str, Column(text(200))]
    licence: Annotated[str, Column(text(100))]
    # Made of the source if the file does not say it.
    source_code: Annotated[str, Column(_code)] | None = None


def read_factors(file: SheetFile) -> Sheet[FactorRow]:
    return read_sheet(file, FactorRow, _check_zero)


def _check_zero(values: Values) -> Iterator[tuple[str, str]]:
    direct, fuel = values.get("kg_co2e_per_unit"), values.get("well_to_tank_kg_co2e_per_unit")
    if direct == 0 and not fuel:
        yield "kg_co2e_per_unit", "the factor is zero: estimates with it would have no mass. Delete the line."


def source_code(row: FactorRow) -> str:
    if row.source_code is not None:
        return row.source_code
    words = [word for word in _NOT_IN_CODE.split(row.source.lower()) if word]
    if "ember" in words:
        return "ember"
    return _CODES.get(words[0], words[0]) if words else "other"


def to_factor(row: FactorRow, *, version: int, created_at: datetime) -> Factor:
    return same_named(
        Factor,
        row,
        version=version,
        kg_per_unit=row.kg_co2e_per_unit,
        well_to_tank=row.well_to_tank_kg_co2e_per_unit,
        source_code=source_code(row),
        created_at=created_at,
    )


def to_row(factor: Factor) -> FactorRow:
    return FactorRow(
        id=factor.id,
        category=factor.category,
        activity=factor.activity,
        unit=factor.unit,
        kg_co2e_per_unit=factor.kg_per_unit,
        well_to_tank_kg_co2e_per_unit=factor.well_to_tank,
        region=factor.region,
        year=factor.year,
        source=factor.source,
        licence=factor.licence,
        source_code=factor.source_code,
    )


@cache
def shipped_factors() -> tuple[Factor, ...]:
    """The factors of the package, each as version 1."""
    name = "factors.csv"
    sheet = read_factors(
        SheetFile(name, (resources.files("tonne.selling.estimates.factors") / "data" / name).read_bytes())
    )
    if sheet.errors:
        raise SheetInvalid(sheet.errors)
    return tuple(to_factor(row, version=1, created_at=SHIPPED_AT) for row in sheet.rows)


class FactorImport(Struct, frozen=True):
    """What an import changes, or would change."""

    changes: RowChanges[FactorRow]
    sources: Sequence[str]
    licences: Sequence[str]


async def import_factors(tx: Connection, file: SheetFile, *, by: By, apply: bool = True) -> FactorImport:
    """All or nothing. Importing the same file again changes nothing.

    A changed factor becomes a new version; estimates keep the one that they were calculated with. With `apply=False`
    nothing is written.
    """
    if apply:
        await store.lock_factors(tx)
    sheet = read_factors(file)
    if not sheet.errors and not sheet.rows:
        sheet.errors.append(RowError(file.name, None, None, "the file has no rows: add some below the header."))
    if sheet.errors:
        raise SheetInvalid(sheet.errors)
    known = FactorSet((*shipped_factors(), *await store.load_latest(tx)))
    # Codes are compared as they are stored, also if the file leaves them out.
    rows = [_with_code(row) for row in sheet.rows]
    changes = compare(file.name, rows, [to_row(factor) for factor in known.all])
    planned = FactorImport(
        changes, sorted({row.source for row in changes.saved}), sorted({row.licence for row in changes.saved})
    )
    if apply and changes:
        versions = {factor.id: factor.version for factor in known.all}
        added = [to_factor(row, version=versions.get(row.id, 0) + 1, created_at=by.at) for row in changes.saved]
        await store.insert_versions(tx, added)
        await audit.record(
            tx,
            None,
            "emission_factors.imported",
            by=by,
            subject_id=file.name,
            sha256=sha256(file.content).hexdigest(),
            new=len(changes.new),
            changed=len(changes.changed),
            unchanged=changes.unchanged_count,
            sources=list(planned.sources),
            licences=list(planned.licences),
        )
    return planned


def _with_code(row: FactorRow) -> FactorRow:
    return replace(row, source_code=source_code(row))
