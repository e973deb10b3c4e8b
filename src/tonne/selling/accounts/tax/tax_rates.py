"""Standard rates of VAT by country. The package has those of the EU; an import replaces them, country by country.

`tax_rates.csv` was made from PyPI's `eu-vat-rates-data` (MIT), with which a test compares it. It has no history: all
rates apply from the first day of its year.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import resources
from typing import Annotated, ClassVar

from msgspec import Struct

from tonne.platform.db.database import Connection, columns
from tonne.platform.documents.sheets.columns import CellError, Column, Date, Label, SheetInvalid, decimal, quoted
from tonne.platform.documents.sheets.read_sheet import Row, SheetFile, read_sheet
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By
from tonne.platform.values.countries import COUNTRIES

SHIPPED_ON = date(2026, 9, 29)
_FILE = "tax_rates.csv"


def _country(cell: str) -> str:
    if cell not in COUNTRIES:
        raise CellError(f"{quoted(cell)} is not an ISO 3166 code of two capital letters, such as DE.")
    return cell


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxRateRow(Row):
    """`rate` is in per cent."""

    KEY: ClassVar[tuple[str, ...]] = ("country", "valid_from")

    country: Annotated[str, Column(_country)]
    rate: Annotated[Decimal, Column(decimal(3, 100))]
    valid_from: Date
    source: Label


class TaxRate(Struct, frozen=True):
    """`rate` is a share: 19 % is 0.19."""

    country: str
    rate: Decimal
    valid_from: date
    source: str
    imported_at: datetime | None = None


def read_tax_rates(file: SheetFile) -> list[TaxRate]:
    """Raises SheetInvalid with every error."""
    sheet = read_sheet(file, TaxRateRow)
    if sheet.errors:
        raise SheetInvalid(sheet.errors)
    return [TaxRate(row.country, row.rate / 100, row.valid_from, row.source) for row in sheet.rows]


def shipped_tax_rates() -> list[TaxRate]:
    content = (resources.files("tonne.selling.accounts.tax") / _FILE).read_bytes()
    return read_tax_rates(SheetFile(_FILE, content))


REMOVE_RATES = "DELETE FROM tax_rates WHERE country = ANY ($1::text[])"
INSERT_RATES = """
INSERT INTO tax_rates (country, rate, valid_from, source, imported_at)
SELECT country, rate, valid_from, source, $1
FROM unnest($2::text[], $3::numeric[], $4::date[], $5::text[]) AS new (country, rate, valid_from, source)
"""


async def import_tax_rates(tx: Connection, file: SheetFile, *, by: By) -> int:
    """Replace the rates of the countries in the file. Orders that have a price keep theirs. Raises SheetInvalid."""
    rates = read_tax_rates(file)
    await tx.execute(REMOVE_RATES, sorted({each.country for each in rates}))
    await tx.execute(INSERT_RATES, by.at, *columns(rates, "country, rate, valid_from, source"))
    stated = {"file": file.name, "rates": len(rates), "countries": len({each.country for each in rates})}
    await audit.record(tx, None, "tax_rates.imported", by=by, subject_id="tax_rates", after=stated)
    return len(rates)


LIST_RATES = "SELECT country, rate, valid_from, source, imported_at FROM tax_rates ORDER BY country, valid_from"


async def list_tax_rates(connection: Connection) -> list[TaxRate]:
    """By country and day. A country without imported rates has those of the package."""
    imported = [TaxRate(**row) for row in await connection.fetch(LIST_RATES)]
    known = {each.country for each in imported}
    found = imported + [each for each in shipped_tax_rates() if each.country not in known]
    return sorted(found, key=lambda each: (each.country, each.valid_from))


async def find_tax_rate(connection: Connection, country: str, day: date) -> Decimal:
    """The standard rate of a country of the EU on a day, as a share. Before the first day of an import, its first."""
    rates = [each for each in await list_tax_rates(connection) if each.country == country]
    return ([each for each in rates if each.valid_from <= day] or rates[:1])[-1].rate


FIND_IMPORTED = "SELECT max(imported_at) FROM tax_rates"


async def rates_as_of(connection: Connection) -> date:
    """When the rates were last seen to."""
    imported_at: datetime | None = await connection.fetchval(FIND_IMPORTED)
    return SHIPPED_ON if imported_at is None else max(SHIPPED_ON, imported_at.astimezone(UTC).date())
