"""The chart of accounts of an accountant: which number each account of the journal has there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Struct

from tonne.money.accounting.books.errors import ChartIncomplete
from tonne.money.accounting.books.month_store import find_closed
from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.read_journal import Period, sum_turnover
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import CellError, Column, Label, SheetInvalid, quoted
from tonne.platform.documents.sheets.read_sheet import Row, SheetFile, read_sheet
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By

# The contra account of all rows of a DATEV file. Its balance is always zero.
TRANSIT = "Transit"
_NAMES = {*LedgerAccount, TRANSIT}


class ChartLine(Struct, frozen=True):
    account: str
    tax_code: str
    number: str
    name: str
    bu_key: str


class Chart(Struct, frozen=True, kw_only=True):
    """`consultant` and `client` are the numbers of the accountant's office. `year_begins` is a month."""

    id: int
    imported_at: datetime
    imported_by: str
    consultant: int
    client: int
    account_length: int
    year_begins: int
    # Of the seller's country: in others, amounts have their value in it.
    currency: str
    lines: tuple[ChartLine, ...]

    def find(self, account: str, tax_code: str) -> ChartLine | None:
        """That of the tax code, or of the account for all codes."""
        found = {(line.account, line.tax_code): line for line in self.lines}
        return found.get((account, tax_code)) or found.get((account, ""))

    def line(self, account: str, tax_code: str) -> ChartLine:
        """Raises ChartIncomplete."""
        if (found := self.find(account, tax_code)) is None:
            raise ChartIncomplete(f"The chart of accounts has no number for {_name(account, tax_code)}.")
        return found

    def number(self, account: str, tax_code: str) -> str:
        return self.line(account, tax_code).number

    def find_number(self, account: str, tax_code: str) -> str | None:
        found = self.find(account, tax_code)
        return None if found is None else found.number

    def require(self, needed: Iterable[tuple[str, str]]) -> None:
        """Raises ChartIncomplete with every gap among these accounts and tax codes."""
        missing = dict.fromkeys(_name(*each) for each in needed if self.find(*each) is None)
        if missing:
            raise ChartIncomplete(f"The chart of accounts has no number for {', '.join(missing)}.")


def _name(account: str, tax_code: str) -> str:
    return f"{account}:{tax_code}" if tax_code else account


def _parse_account(cell: str) -> str:
    if cell not in _NAMES:
        raise CellError(f"{quoted(cell)} is no account of the journal: docs/accounting.md lists them.")
    return cell


def _parse_number(cell: str) -> str:
    if not (cell.isascii() and cell.isdigit() and 4 <= len(cell) <= 9):
        raise CellError(f"{quoted(cell)} is not a number of 4 to 9 digits.")
    return cell


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("account", "tax_code")

    account: Annotated[str, Column(_parse_account)]
    tax_code: Label | None = None
    number: Annotated[str, Column(_parse_number)]
    name: Label
    bu_key: Label | None = None


class Office(Struct, frozen=True):
    """How the accountant's office numbers this client."""

    consultant: int
    client: int
    year_begins: int = 1
    currency: str = "EUR"


INSERT_CHART = """
INSERT INTO ledger_charts (imported_at, imported_by, consultant, client, account_length, year_begins, currency, lines)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::jsonb)
"""


async def import_chart(tx: Connection, file: SheetFile, office: Office, *, by: By) -> Sequence[ChartLine]:
    """Replaces the chart for open months. Raises SheetInvalid with every error."""
    sheet = read_sheet(file, ChartRow)
    if sheet.errors:
        raise SheetInvalid(sheet.errors)
    lines = [ChartLine(row.account, row.tax_code or "", row.number, row.name, row.bu_key or "") for row in sheet.rows]
    length = min((len(line.number) for line in lines), default=4)
    values = (by.at, str(by.actor), office.consultant, office.client, length, office.year_begins, office.currency)
    await tx.execute(INSERT_CHART, *values, msgspec.json.encode(lines).decode())
    await audit.record(tx, None, "chart.imported", by=by, subject_id=file.name)
    return lines


# The chart of a closed month is the one that it was closed with.
FIND_CHART = """
SELECT id, imported_at, imported_by, consultant, client, account_length, year_begins, currency,
       lines::text AS lines
FROM ledger_charts
WHERE $1::timestamptz IS NULL OR imported_at < $1 ORDER BY id DESC LIMIT 1
"""


async def find_chart(connection: Connection, before: datetime | None = None) -> Chart | None:
    """The newest one, or the newest one before that time."""
    row = await connection.fetchrow(FIND_CHART, before)
    if row is None:
        return None
    return Chart(**{**row, "lines": msgspec.json.decode(row["lines"], type=tuple[ChartLine, ...])})


async def find_numbers(
    tx: Connection, period: Period, *, since: datetime | None = None, also: Sequence[tuple[str, str]] = ()
) -> Chart | None:
    """The chart of the month, if there is one.

    Raises ChartIncomplete with every account of `also`, or in which something is booked in the month or since then,
    that has no number.
    """
    closed = await find_closed(tx, period.mode, period.start.date())
    chart = await find_chart(tx, None if closed is None else closed.closed_at)
    if chart is not None:
        booked = await sum_turnover(tx, Period(period.mode, since or period.start, period.end))
        chart.require([*also, *((each.account, each.tax_code) for each in booked)])
    return chart


async def require_chart(tx: Connection, period: Period) -> Chart:
    """For DATEV: with the transit account. Raises ChartIncomplete."""
    chart = await find_numbers(tx, period, also=[(TRANSIT, "")])
    if chart is None:
        raise ChartIncomplete("There is no chart of accounts: import one with `tonne books chart import`.")
    return chart
