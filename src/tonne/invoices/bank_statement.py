"""The lines of a bank statement."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated

from tonne.base.currency import DECIMALS
from tonne.base.decimals import parse_decimal
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.sheets.columns import CellError, Column, Currency, Date, precision_error, text
from tonne.sheets.csv_lines import SheetFile
from tonne.sheets.errors import SheetInvalid, quoted
from tonne.sheets.read_sheet import Row, Values, read_sheet


def _collapse_spaces(cell: str) -> str:
    """Banks break and pad the text of payers."""
    return " ".join(cell.split())


def _parse_amount(cell: str) -> Decimal:
    number = parse_decimal(cell[1:] if cell.startswith(("+", "-")) else cell)
    if number is None:
        raise CellError(f"{quoted(cell)} is not an amount: write digits, with a point before the decimals.")
    return -number if cell.startswith("-") else number


PayerText = Annotated[str, Column(text(1000), _collapse_spaces, if_empty=None)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRow(Row):
    booked_on: Date
    amount: Annotated[Decimal, Column(_parse_amount)]
    currency: Currency
    payer: PayerText
    reference: PayerText


@dataclass(frozen=True, slots=True)
class StatementLine:
    """`repeat` numbers identical lines of a statement: two equal transfers on one day are two transfers."""

    line: int
    booked_on: date
    amount_minor: int
    currency: str
    payer: str
    reference: str
    repeat: int = 0

    @property
    def amount(self) -> str:
        sign = "-" if self.amount_minor < 0 else ""
        return f"{sign}{format_money(abs(self.amount_minor), self.currency)} {self.currency}"

    def digest(self, mode: Mode) -> bytes:
        """Equal for the same line of overlapping statements, so that it is booked once."""
        facts = (mode, self.booked_on.isoformat(), self.amount_minor, self.currency, self.payer, self.reference)
        return hashlib.sha256(json.dumps([*facts, self.repeat]).encode()).digest()


def read_statement(file: SheetFile) -> list[StatementLine]:
    """Read all lines, or raise SheetInvalid with every error."""
    sheet = read_sheet(file, StatementRow, _check_amount)
    if sheet.errors:
        raise SheetInvalid(sheet.errors)
    lines: list[StatementLine] = []
    seen: Counter[StatementRow] = Counter()
    for row in sheet.rows:
        facts = asdict(row)
        amount_minor = int(facts.pop("amount").scaleb(DECIMALS[row.currency]))
        lines.append(StatementLine(amount_minor=amount_minor, repeat=seen[row], **facts))
        seen[row] += 1
    return lines


def _check_amount(values: Values) -> Iterator[tuple[str, str]]:
    if {"amount", "currency"} <= values.keys():
        message = precision_error(values["amount"], DECIMALS[values["currency"]])
        if message is not None:
            yield "amount", message
