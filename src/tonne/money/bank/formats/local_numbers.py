"""Dates and amounts in local spelling, as banks write them into CSV files.

What can mean two things is never guessed: the spelling is detected from the whole file, and if that does not decide,
the operator is asked for an option.
"""

import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from enum import StrEnum

from tonne.platform.documents.sheets.columns import CellError, parse_date, quoted
from tonne.platform.values.amounts import parse_decimal

_MONTHS = 12
_ISO = re.compile(r"([0-9]{4})([-./])([0-9]{1,2})\2([0-9]{1,2})\.?", re.ASCII)
_LOCAL = re.compile(r"([0-9]{1,2})([-./])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})", re.ASCII)
# Spaces, also those that do not break, and the apostrophes of Switzerland.
_GROUP_ONLY = " \u00a0\u2009\u202f'\u2019"
_AMOUNT = re.compile(rf"[0-9][0-9.,{_GROUP_ONLY}]*", re.ASCII)
_SIGNS = {"+": 1, "-": -1, "\u2212": -1}


class DateOrder(StrEnum):
    YMD = "ymd"
    DMY = "dmy"
    MDY = "mdy"


class DecimalMark(StrEnum):
    POINT = "point"
    COMMA = "comma"


def detect_date_order(cells: Iterable[str]) -> DateOrder | None:
    """The order that the dates of a file prove, or None. Dates with the year first need no order."""
    proved = set()
    for cell in cells:
        found = _LOCAL.fullmatch(cell.strip())
        if found is None or len(found[4]) != len("2026"):
            continue
        first, second = int(found[1]), int(found[3])
        # With points the day comes first wherever dates are written so.
        if found[2] == "." or first > _MONTHS >= second:
            proved.add(DateOrder.DMY)
        elif second > _MONTHS >= first:
            proved.add(DateOrder.MDY)
    return proved.pop() if len(proved) == 1 else None


def parse_local_date(cell: str, order: DateOrder | None) -> date:
    """Raises CellError. Without an order, only a date that has one meaning is read."""
    if iso := _ISO.fullmatch(cell):
        return parse_date(f"{iso[1]}-{int(iso[3]):02d}-{int(iso[4]):02d}")
    found = _LOCAL.fullmatch(cell)
    if found is None:
        return parse_date(cell)
    if order is DateOrder.YMD:
        # A year of two digits comes first in this order.
        first, second, third = found[1], found[3], found[4]
        return parse_date(f"20{int(first):02d}-{int(second):02d}-{int(third):02d}" if len(third) <= 2 else cell)
    if order is None:
        raise CellError(
            f"{quoted(cell)} can be more than one date: say how the file writes dates with --dates dmy (day first), "
            "--dates mdy (month first) or --dates ymd (year first)."
        )
    day, month = (found[1], found[3]) if order is DateOrder.DMY else (found[3], found[1])
    year = found[4] if len(found[4]) == len("2026") else f"20{found[4]}"
    try:
        return parse_date(f"{year}-{int(month):02d}-{int(day):02d}")
    except CellError as error:
        name = "day first" if order is DateOrder.DMY else "month first"
        raise CellError(
            f"{quoted(cell)} is not a date with the {name}, as others of this file are: write 2026-01-31."
        ) from error


def detect_decimal_mark(cells: Iterable[str]) -> DecimalMark | None:
    """The mark that the amounts of a file prove, or None if they prove none, or both."""
    proved = {mark for cell in cells if (mark := _proved_mark(_split_sign(cell.strip())[1])) is not None}
    return proved.pop() if len(proved) == 1 else None


def parse_local_amount(cell: str, mark: DecimalMark | None) -> Decimal:
    """Raises CellError. Without a mark, only an amount that has one meaning is read."""
    sign, digits = _split_sign(cell)
    number = None
    if _AMOUNT.fullmatch(digits):
        proved = _proved_mark(digits)
        if mark is not None and proved is not None and proved is not mark:
            raise CellError(
                f"{quoted(cell)} has a decimal {proved}, but the file is read with a decimal {mark}: write all amounts "
                "alike."
            )
        if mark is None and proved is None and re.search("[.,]", digits):
            raise CellError(
                f"{quoted(cell)} can mean two amounts: say how the file writes decimals with --decimals point or "
                "--decimals comma."
            )
        number = _plain_number(digits, proved or mark or DecimalMark.POINT)
    if number is None:
        raise CellError(f"{quoted(cell)} is not an amount: write digits with a decimal point or comma, such as 13.95.")
    return sign * number


def _split_sign(cell: str) -> tuple[int, str]:
    """The sign is in front, or behind as some banks write it."""
    if cell[:1] in _SIGNS:
        return _SIGNS[cell[0]], cell[1:].lstrip()
    if cell[-1:] in _SIGNS:
        return _SIGNS[cell[-1]], cell[:-1].rstrip()
    return 1, cell


def _proved_mark(digits: str) -> DecimalMark | None:
    """The decimal mark, if the digits can be read in one way only: `1.234,5` and `12,95`, but not `1.234`."""
    points, commas = digits.count("."), digits.count(",")
    if points and commas:
        last_is_comma = digits.rfind(",") > digits.rfind(".")
        # The mark occurs once; before it are only groups.
        if (commas if last_is_comma else points) != 1:
            return None
        return DecimalMark.COMMA if last_is_comma else DecimalMark.POINT
    if points + commas == 0:
        return None
    sign = "." if points else ","
    if points + commas > 1:
        # Groups only: the other sign would mark decimals.
        return DecimalMark.COMMA if points else DecimalMark.POINT
    before, _, after = digits.partition(sign)
    whole = re.sub(f"[{_GROUP_ONLY}]", "", before)
    # Three digits may be a group of thousands, unless there is no full group before it.
    is_group = len(after) == 3 and 1 <= len(whole) <= 3 and before == whole and not whole.startswith("0")
    if is_group:
        return None
    return DecimalMark.POINT if points else DecimalMark.COMMA


def _plain_number(digits: str, mark: DecimalMark) -> Decimal | None:
    """None if the groups are not groups of three."""
    decimal, group = (".", ",") if mark is DecimalMark.POINT else (",", ".")
    whole, found, decimals = digits.partition(decimal)
    groups = re.split(f"[{group}{_GROUP_ONLY}]", whole)
    if len(groups) > 1 and not (1 <= len(groups[0]) <= 3 and all(len(each) == 3 for each in groups[1:])):
        return None
    return parse_decimal("".join(groups) + (f".{decimals}" if found else ""))
