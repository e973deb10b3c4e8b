"""A bank statement as CSV: bytes to lines, and every fault with its place."""

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from tonne.base.currency import DECIMALS
from tonne.base.decimals import parse_decimal, scaled
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.catalog.csv_cells import Cells
from tonne.catalog.csv_files import MAX_BAD_LINES, MAX_BYTES, MAX_ROWS, BadLine, RawRow, show
from tonne.catalog.import_catalogue import BadLinesError

if TYPE_CHECKING:
    import _csv

COLUMNS = ("booked_on", "amount", "currency", "payer", "reference")
MAX_TEXT = 1000
_SIGNED = re.compile(r"([+-]?)(.+)")


@dataclass(frozen=True, slots=True)
class StatementLine:
    """`repeat` tells lines apart that are alike: two transfers of one sum on one day are two."""

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
        """The same for the same line of any statement, so that one that is imported twice counts once."""
        facts = (mode, self.booked_on.isoformat(), self.amount_minor, self.currency, self.payer, self.reference)
        return hashlib.sha256(json.dumps([*facts, self.repeat]).encode()).digest()


def read_statement(name: str, content: bytes) -> list[StatementLine]:
    """All lines of the file called `name`, or BadLinesError with everything there is to mend."""
    bad_lines: list[BadLine] = []
    lines: list[StatementLine] = []
    seen: Counter[tuple[object, ...]] = Counter()
    for row in _rows(name, content, bad_lines):
        cells = Cells(name, row)
        booked_on, currency = cells.optional_date("booked_on"), cells.currency("currency")
        amount_minor = _amount(cells, currency)
        payer = cells.optional_text("payer", MAX_TEXT) or ""
        reference = cells.optional_text("reference", MAX_TEXT) or ""
        if booked_on is None and cells.is_sound(("booked_on",)):
            cells.note("booked_on", "the cell is empty: give the day on which the bank booked the line.")
        bad_lines += cells.faults
        if booked_on is not None and not cells.faults:
            facts = (booked_on, amount_minor, currency, payer, reference)
            lines.append(StatementLine(row.line, *facts, repeat=seen[facts]))
            seen[facts] += 1
    if bad_lines:
        raise BadLinesError(bad_lines)
    return lines


def _amount(cells: Cells, currency: str) -> int:
    text = cells.text("amount", 40)
    if not text or not currency:
        return 0
    found = _SIGNED.fullmatch(text)
    number = parse_decimal(found[2]) if found else None
    amount_minor = None if number is None else scaled(number, DECIMALS[currency])
    if found is None or amount_minor is None:
        decimals = DECIMALS[currency]
        places = f"at most {decimals} decimals after a point" if decimals else "no decimals"
        cells.note("amount", f"{show(text)} is not an amount in {currency}: write digits, with {places}.")
        return 0
    return -amount_minor if found[1] == "-" else amount_minor


def _rows(name: str, content: bytes, bad_lines: list[BadLine]) -> Iterator[RawRow]:
    """The rows below the header, with the spaces in their cells made plain: banks break and pad what payers write."""
    text = _decode(name, content, bad_lines)
    separator = ";" if ";" in text.partition("\n")[0] else ","
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
    header: list[str] = []
    for line, cells in _lines(reader, name, bad_lines):
        if not header:
            header = [cell.strip().lower() for cell in cells]
            if sorted(header) != sorted(COLUMNS):
                message = f"the first line must name the columns {', '.join(COLUMNS)}, and no others."
                bad_lines.append(BadLine(name, line, None, message))
                return
        elif len(cells) != len(header):
            message = (
                f"the line has {len(cells)} cells instead of {len(header)}: put a cell with a separator in quotes."
            )
            bad_lines.append(BadLine(name, line, None, message))
        else:
            yield RawRow(line, {column: " ".join(cell.split()) for column, cell in zip(header, cells, strict=True)})
    if not header and not bad_lines:
        bad_lines.append(BadLine(name, 1, None, f"the file is empty: its first line must be {','.join(COLUMNS)}."))


def _decode(name: str, content: bytes, bad_lines: list[BadLine]) -> str:
    if len(content) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 1_000_000} MB: split it and import the parts."
        bad_lines.append(BadLine(name, None, None, message))
        return ""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        bad_lines.append(BadLine(name, line, None, "the file is not UTF-8 from here on: save it as “CSV UTF-8”."))
        return ""


def _lines(reader: "_csv.Reader", name: str, bad_lines: list[BadLine]) -> Iterator[tuple[int, list[str]]]:
    """The lines that hold anything, until one is no CSV, or there are too many of them or of faults."""
    count = 0
    while len(bad_lines) < MAX_BAD_LINES and count <= MAX_ROWS:
        # A quoted cell may span lines: a row is named by the line it starts on.
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            message = f"the line is not valid CSV ({error}): mend its quotes, then import again."
            bad_lines.append(BadLine(name, line, None, message))
            return
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            count += 1
            yield line, cells
    message = (
        f"there are more than {MAX_ROWS:,} rows or {MAX_BAD_LINES:,} faults: mend those above, and import in parts."
    )
    bad_lines.append(BadLine(name, None, None, message))
