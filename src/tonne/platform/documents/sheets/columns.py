"""Column types. A parser takes the text of a cell that is not empty, and returns its value or raises CellError.

An import reports all errors of a file at once.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

from msgspec import Struct

from tonne.platform.values.amounts import DECIMALS, parse_decimal, scaled
from tonne.platform.values.urls import HTTPS, MAX_URL_LENGTH, WEB, UrlInvalid, parse_url


class RowError(Struct, frozen=True):
    """`line` counts from 1 and includes the header; None means the whole file or the whole line.

    `accept_option` is the option of the command line that accepts the row as it is. Only the text for the command line
    names it: pages have a checkbox.
    """

    file: str
    line: int | None
    column: str | None
    message: str
    accept_option: str = ""

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        column = "" if self.column is None else f", column {self.column}"
        option = f" To accept it, use {self.accept_option}." if self.accept_option else ""
        return f"{self.file}{line}{column}: {self.message}{option}"


class SheetInvalid(Exception):
    """Nothing was imported. `errors` holds every error that was found."""

    def __init__(self, errors: Sequence[RowError]) -> None:
        # As the only argument, so that it can be pickled.
        super().__init__(errors)
        self.errors = errors

    def __str__(self) -> str:
        return "\n".join(map(str, self.errors))


def quoted(text: str) -> str:
    """Text from a file in quotes, shortened and without characters that a terminal would interpret."""
    cut = text if len(text) <= 40 else f"{text[:39]}…"
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f"“{printable}”"


LABEL_LENGTH = 100
_EARLIEST_YEAR = 1990
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DIGITS = re.compile(r"[0-9]{1,18}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?(Z|[+-][0-9]{2}:[0-9]{2})")
# Control characters, line breaks and direction marks: with them a name can be made to look like another one.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NOT_IN_PATH = re.compile(r"""[^!-~]|["<>\\^`{|}]""")


class CellError(Exception):
    """The message says what is wrong with the cell and what to write instead."""


class Column(Struct, frozen=True):
    """The rules of one column. With `if_empty=None`, an empty cell is an empty string instead of an error."""

    parse: Callable[[str], Any]
    clean: Callable[[str], str] = str.strip
    if_empty: str | None = "the cell is empty: enter a value."

    def read(self, cell: str, *, optional: bool) -> Any:
        text = self.clean(cell)
        if control := _CONTROL.search(text):
            raise CellError(f"the cell contains the control character U+{ord(control[0]):04X}: remove it.")
        if not text and optional:
            return None
        if not text and self.if_empty is not None:
            raise CellError(self.if_empty)
        return self.parse(text)


def text(max_length: int) -> Callable[[str], str]:
    def parse(cell: str) -> str:
        if len(cell) > max_length:
            raise CellError(f"the text has {len(cell):,} characters: shorten it to at most {max_length:,}.")
        return cell

    return parse


def choice(*values: str) -> Callable[[str], str]:
    def parse(cell: str) -> str:
        if cell not in values:
            raise CellError(f"{quoted(cell)} is not allowed here: write {' or '.join(values)}.")
        return cell

    return parse


def whole(low: int, high: int) -> Callable[[str], int]:
    def parse(cell: str) -> int:
        if not _DIGITS.fullmatch(cell) or not low <= int(cell) <= high:
            raise CellError(f"{quoted(cell)} is not a whole number from {low} to {high}: write it in digits only.")
        return int(cell)

    return parse


def decimal(decimals: int, high: int) -> Callable[[str], Decimal]:
    """Above zero and at most `high`."""

    def parse(cell: str) -> Decimal:
        number = parse_decimal(cell)
        if number is None or not 0 < number <= high:
            raise CellError(f"{quoted(cell)} is not a number above 0 and up to {high:,}: write one such as 12.65.")
        if message := precision_error(number, decimals):
            raise CellError(message)
        return number

    return parse


def precision_error(number: Decimal, decimals: int) -> str | None:
    if scaled(number, decimals) is not None:
        return None
    return f"{number} is too precise: write {f'at most {decimals}' if decimals else 'no'} decimals."


def parse_flag(cell: str) -> bool:
    return choice("true", "false")(cell) == "true"


def parse_slug(cell: str) -> str:
    if not _SLUG.fullmatch(text(LABEL_LENGTH)(cell)):
        raise CellError(
            f"{quoted(cell)} is not a slug: use lower-case letters, digits and single hyphens, as in forest-mix."
        )
    return cell


def parse_currency(cell: str) -> str:
    if cell not in DECIMALS:
        raise CellError(f"{quoted(cell)} is not a currency: write its ISO 4217 code in capitals, such as EUR.")
    return cell


def parse_web_url(cell: str, schemes: Sequence[str] = WEB) -> str:
    try:
        # Browsers follow it, so it must not contain a password.
        return str(parse_url(cell, schemes))
    except UrlInvalid as error:
        message = f"{quoted(cell)} is not a web address, because {error}: write one such as https://example.org/a."
        raise CellError(message) from error


def parse_image(cell: str) -> str:
    # Two leading slashes would name another host.
    if not cell.startswith("/") or cell.startswith("//"):
        return parse_web_url(cell)
    if _NOT_IN_PATH.search(text(MAX_URL_LENGTH)(cell)):
        raise CellError(f"{quoted(cell)} is not a path: percent-encode special characters, or write a web address.")
    return cell


def parse_date(cell: str) -> date:
    try:
        day = date.fromisoformat(cell) if _DATE.fullmatch(cell) else None
    except ValueError:
        day = None
    if day is None or day.year < _EARLIEST_YEAR:
        raise CellError(f"{quoted(cell)} is not a date from {_EARLIEST_YEAR} on: write it as 2026-01-31.")
    return day


def parse_time(cell: str) -> datetime:
    """A time with its offset from UTC; a date means midnight UTC."""
    full = f"{cell}T00:00:00Z" if _DATE.fullmatch(cell) else cell
    try:
        time = datetime.fromisoformat(full).astimezone(UTC) if _TIME.fullmatch(full) else None
    except (ValueError, OverflowError):
        time = None
    if time is None or time.year < _EARLIEST_YEAR:
        example = "2026-01-31 or 2026-01-31T09:30:00Z"
        raise CellError(f"{quoted(cell)} is not a time from {_EARLIEST_YEAR} on: write one such as {example}.")
    return time


Label = Annotated[str, Column(text(LABEL_LENGTH))]
Slug = Annotated[str, Column(parse_slug)]
Currency = Annotated[str, Column(parse_currency)]
WebUrl = Annotated[str, Column(parse_web_url)]
HttpsUrl = Annotated[str, Column(partial(parse_web_url, schemes=HTTPS))]
Image = Annotated[str, Column(parse_image)]
Date = Annotated[date, Column(parse_date)]
