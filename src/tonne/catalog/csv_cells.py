"""The cells of one row, judged as they are read. A fault is noted, and reading goes on to find the others."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal

from tonne.base.currency import DECIMALS
from tonne.base.decimals import parse_decimal, scaled
from tonne.base.urls import MAX_URL_LENGTH, WEB, UrlInvalid, parse_url
from tonne.catalog.csv_files import BadLine, RawRow, show

# Of a label, a slug, a number, a date: whatever a person reads at a glance.
LABEL_LENGTH = 100
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DIGITS = re.compile(r"[0-9]{1,18}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?(Z|[+-][0-9]{2}:[0-9]{2})")
# Control characters, and those that break a line or turn the direction of writing: they make a name look like another.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Whatever needs quoting in a URL should be quoted already.
_NOT_IN_URL = re.compile(r"""[^!-~]|["<>\\^`{|}]""")
_EARLIEST_YEAR = 1990


class Cells:
    """Each method returns the cell's value, or a placeholder of the same type after noting a fault."""

    __slots__ = ("_cells", "_file", "_line", "faults")

    def __init__(self, file_name: str, row: RawRow) -> None:
        self.faults: list[BadLine] = []
        self._file = file_name
        self._line = row.line
        self._cells = row.cells

    @property
    def line(self) -> int:
        return self._line

    def note(self, column: str, message: str) -> None:
        self.faults.append(BadLine(self._file, self._line, column, message))

    def is_sound(self, columns: tuple[str, ...]) -> bool:
        return all(fault.column not in columns for fault in self.faults)

    def optional_text(self, column: str, max_length: int) -> str | None:
        """Without the spaces around it; None when nothing is left."""
        cell = self._cells[column]
        forbidden = _FORBIDDEN.search(cell)
        if forbidden:
            self.note(column, f"the cell holds the control character U+{ord(forbidden.group()):04X}: remove it.")
            return None
        text = cell.strip()
        if len(text) > max_length:
            self.note(column, f"the text has {len(text):,} characters: shorten it to at most {max_length:,}.")
            return None
        return text or None

    def text(self, column: str, max_length: int) -> str:
        return self._required(column, max_length) or ""

    def choice(self, column: str, values: tuple[str, ...]) -> str:
        text = self._required(column)
        if text is None or text in values:
            return text or ""
        self.note(column, f"{show(text)} is not possible here: write {' or '.join(values)}.")
        return ""

    def slug(self, column: str) -> str:
        return self._slug(column, self._required(column, LABEL_LENGTH)) or ""

    def optional_slug(self, column: str) -> str | None:
        return self._slug(column, self.optional_text(column, LABEL_LENGTH))

    def whole(self, column: str, low: int, high: int) -> int:
        text = self._required(column)
        if text is None:
            return low
        if not _DIGITS.fullmatch(text) or not low <= int(text) <= high:
            self.note(column, f"{show(text)} is not a whole number from {low} to {high}: write it in digits only.")
            return low
        return int(text)

    def decimal(self, column: str, decimals: int, high: int) -> Decimal:
        """Above zero, up to a bound, with at most so many decimals."""
        text = self._required(column)
        if text is None:
            return Decimal(1)
        return self._decimal(column, text, decimals, high) or Decimal(1)

    def optional_decimal(self, column: str, decimals: int, high: int) -> Decimal | None:
        text = self.optional_text(column, LABEL_LENGTH)
        return None if text is None else self._decimal(column, text, decimals, high)

    def currency(self, column: str) -> str:
        text = self._required(column)
        if text is None or text in DECIMALS:
            return text or ""
        self.note(column, f"{show(text)} is not a currency: write its ISO 4217 code in capitals, such as EUR.")
        return ""

    def optional_url(self, column: str, *, or_path: bool = False) -> str | None:
        text = self.optional_text(column, MAX_URL_LENGTH)
        if text is None or (or_path and is_path(text)):
            return text
        try:
            # A browser follows it, so it must not carry a password.
            return str(parse_url(text, WEB))
        except UrlInvalid:
            pass
        also = ", or a path on this service such as /images/forest.svg" if or_path else ""
        self.note(column, f"{show(text)} is not a web address: write one such as https://example.org/a{also}.")
        return None

    def optional_date(self, column: str) -> date | None:
        text = self.optional_text(column, LABEL_LENGTH)
        if text is None:
            return None
        day = parse_date(text)
        if day is None:
            self.note(column, f"{show(text)} is not a date from {_EARLIEST_YEAR} on: write it as 2026-01-31.")
        return day

    def moment(self, column: str) -> datetime:
        """A time with its offset from UTC, or a date, which means its first moment in UTC."""
        text = self._required(column)
        moment = None if text is None else parse_moment(text)
        if text is not None and moment is None:
            example = "2026-01-31 or 2026-01-31T09:30:00Z"
            self.note(column, f"{show(text)} is not a time from {_EARLIEST_YEAR} on: write one such as {example}.")
        return moment or datetime(2000, 1, 1, tzinfo=UTC)

    def _required(self, column: str, max_length: int = LABEL_LENGTH) -> str | None:
        fault_count = len(self.faults)
        text = self.optional_text(column, max_length)
        if text is None and len(self.faults) == fault_count:
            self.note(column, "the cell is empty: give a value.")
        return text

    def _slug(self, column: str, text: str | None) -> str | None:
        if text is None or SLUG.fullmatch(text):
            return text
        self.note(column, f"{show(text)} is not a slug: write small letters, digits and single hyphens, as forest-mix.")
        return None

    def _decimal(self, column: str, text: str, decimals: int, high: int) -> Decimal | None:
        number = parse_decimal(text)
        if number is None or scaled(number, decimals) is None or not 0 < number <= high:
            points = f"at most {decimals} decimals" if decimals else "no decimals"
            self.note(column, f"{show(text)} is not a number above 0 and up to {high:,} with {points}: write it so.")
            return None
        return number


def parse_date(text: str) -> date | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if day.year >= _EARLIEST_YEAR else None


def parse_moment(text: str) -> datetime | None:
    day = parse_date(text)
    if day is not None:
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    if not _MOMENT.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if moment.year >= _EARLIEST_YEAR else None


def is_path(text: str) -> bool:
    """Whether it names a place on this service. Two slashes would name another host."""
    return text.startswith("/") and not text.startswith("//") and not _NOT_IN_URL.search(text)
