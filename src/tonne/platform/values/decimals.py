"""Decimal numbers as text: plain digits of limited length, no sign, no exponent, never a float."""

import re
from decimal import Decimal

# 15 digits before the point and 12 after cover every amount, and bound the cost of arithmetic.
PATTERN = r"^[0-9]{1,15}(\.[0-9]{1,12})?$"
_PLAIN = re.compile(PATTERN.removeprefix("^").removesuffix("$"), re.ASCII)


def parse_decimal(text: str) -> Decimal | None:
    """The number, or None if `text` is not a plain decimal within the bounds."""
    return Decimal(text) if _PLAIN.fullmatch(text) else None


def parse_typed(text: str) -> Decimal | None:
    """A number as people type it: a point or a comma is the decimal separator.

    Thousands separators are ambiguous, and refused.
    """
    stripped = text.strip()
    return parse_decimal(stripped.replace(",", ".")) if stripped.count(",") <= 1 else None


def scaled(number: Decimal, digits: int) -> int | None:
    """`number` x 10^digits as an integer, or None if digits would be lost."""
    shifted = number.scaleb(digits)
    whole = int(shifted)
    return whole if whole == shifted else None


def format_scaled(whole: int, digits: int) -> str:
    """The inverse of `scaled`: 717600 with 2 digits is `7176.00`."""
    if digits == 0:
        return str(whole)
    sign, text = "-" if whole < 0 else "", str(abs(whole)).rjust(digits + 1, "0")
    return f"{sign}{text[:-digits]}.{text[-digits:]}"
