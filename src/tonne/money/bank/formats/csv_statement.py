"""Bank statements as CSV files with the columns that docs/bank.md lists."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from msgspec import Struct

from tonne.money.bank.formats.local_numbers import (
    DateOrder,
    DecimalMark,
    detect_date_order,
    detect_decimal_mark,
    parse_local_amount,
    parse_local_date,
)
from tonne.money.bank.formats.statement import MAX_TEXT, StatementLine, clean_reference
from tonne.platform.documents.sheets.columns import (
    CellError,
    Column,
    Currency,
    SheetInvalid,
    precision_error,
    quoted,
    text,
)
from tonne.platform.documents.sheets.read_sheet import Row, SheetFile, Unreadable, Values, read_lines, read_sheet
from tonne.platform.values.amounts import DECIMALS, scaled
from tonne.platform.values.iban import compact_iban, is_iban

_MAX_CELL = 50
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def _collapse_spaces(cell: str) -> str:
    """Banks break and pad the text of payers."""
    return " ".join(cell.split())


def _parse_iban(cell: str) -> str:
    if not is_iban(cell):
        raise CellError(f"{quoted(cell)} is not a valid IBAN: correct it, or leave the cell empty.")
    return compact_iban(cell)


PayerText = Annotated[str, Column(text(MAX_TEXT), _collapse_spaces, if_empty=None)]
RawCell = Annotated[str, Column(text(_MAX_CELL))]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRow(Row):
    """Date and amount stay text until the spelling of the whole file is known."""

    booked_on: RawCell
    amount: RawCell
    currency: Currency
    payer: PayerText
    reference: PayerText
    own_iban: Annotated[str, Column(_parse_iban)] | None = None
    payer_iban: Annotated[str, Column(_parse_iban)] | None = None
    bank_reference: Annotated[str, Column(text(_MAX_CELL))] | None = None


class Spelling(Struct, frozen=True):
    """How a file writes dates and amounts. None: only what has one meaning is read."""

    dates: DateOrder | None = None
    decimals: DecimalMark | None = None


def read_csv(file: SheetFile, given: Spelling) -> list[StatementLine]:
    """Read all lines, or raise SheetInvalid with every error. What `given` leaves open is detected."""
    spelling = _detect(file.content, given)
    sheet = read_sheet(file, StatementRow, partial(_check, spelling))
    if sheet.errors:
        raise SheetInvalid(sheet.errors)
    return [_line(row, spelling) for row in sheet.rows]


def _line(row: StatementRow, spelling: Spelling) -> StatementLine:
    amount_minor = scaled(parse_local_amount(row.amount, spelling.decimals), DECIMALS[row.currency])
    if amount_minor is None:
        raise LookupError(f"line {row.line} was not checked")
    return StatementLine(
        line=row.line,
        booked_on=parse_local_date(row.booked_on, spelling.dates),
        amount_minor=amount_minor,
        currency=row.currency,
        payer=row.payer,
        reference=row.reference,
        own_account=row.own_iban or "",
        payer_iban=row.payer_iban or "",
        bank_reference=clean_reference(row.bank_reference or ""),
    )


def _check(spelling: Spelling, values: Values) -> Iterator[tuple[str, str]]:
    if "booked_on" in values and (message := _error(parse_local_date, values["booked_on"], spelling.dates)):
        yield "booked_on", message
    if "amount" not in values:
        return
    if message := _error(parse_local_amount, values["amount"], spelling.decimals):
        yield "amount", message
    elif "currency" in values:
        number = parse_local_amount(values["amount"], spelling.decimals)
        if message := precision_error(number, DECIMALS[values["currency"]]):
            yield "amount", message


def _error(parse: Callable[..., object], *args: object) -> str | None:
    try:
        parse(*args)
    except CellError as error:
        return str(error)
    return None


def _detect(content: bytes, given: Spelling) -> Spelling:
    """Looks at every date and amount before any is read."""
    dates, amounts = [], []
    try:
        lines = read_lines(content)
        header = [cell.strip().lower() for cell in next(lines, (1, []))[1]]
        for _, cells in lines:
            row = dict(zip(header, cells, strict=False))
            dates.append(row.get("booked_on", ""))
            amounts.append(row.get("amount", ""))
    except Unreadable:
        # Reading it again reports the error.
        return given
    decimals = DecimalMark.POINT if _is_plain(content, dates, amounts) else detect_decimal_mark(amounts)
    return Spelling(given.dates or detect_date_order(dates), given.decimals or decimals)


def _is_plain(content: bytes, dates: list[str], amounts: list[str]) -> bool:
    """Whether the file is in Tonne's own format, which has a decimal point: commas between cells, and dates of ISO."""
    header = content.lstrip().split(b"\n", 1)[0]
    has_commas = not any(separator in header for separator in (b";", b"\t"))
    return has_commas and all(_ISO.fullmatch(each.strip()) for each in dates) and not any("," in a for a in amounts)
