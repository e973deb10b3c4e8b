"""Formats numbers, amounts and dates in the visitor's locale."""

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from babel import Locale, UnknownLocaleError
from babel.dates import format_date
from babel.numbers import format_currency, format_decimal, format_percent, get_decimal_symbol

from tonne.base.decimals import format_scaled
from tonne.base.mass import format_tonnes
from tonne.base.money import format_money

DEFAULT = Locale("en")
_MAX_HEADER = 200


@lru_cache(1000)
def locale_of(accept_language: str) -> Locale:
    """The first known language of the header, English if there is none."""
    for part in accept_language[:_MAX_HEADER].split(","):
        name = part.partition(";")[0].strip()
        try:
            return Locale.parse(name, sep="-")
        except (ValueError, UnknownLocaleError, TypeError):
            continue
    return DEFAULT


def money(amount_minor: int, currency: str, locale: Locale) -> str:
    """With all decimals of the currency, not rounded."""
    amount = Decimal(format_money(amount_minor, currency))
    return format_currency(amount, currency, locale=locale, decimal_quantization=False)


def tonnes(grams: int, locale: Locale) -> str:
    """To the gram, with a non-breaking space before the unit."""
    return f"{number(format_tonnes(grams), locale)}\u00a0t"


def number(text: str, locale: Locale) -> str:
    """Localise a decimal as the API returns it."""
    return format_decimal(Decimal(text), locale=locale, decimal_quantization=False)


def percent(part: Fraction, locale: Locale) -> str:
    """A rate with at most five decimals, in per cent, not rounded."""
    return format_percent(Decimal(format_scaled(int(part * 100_000), 5)), locale=locale, decimal_quantization=False)


def day(moment: date | datetime, locale: Locale) -> str:
    return format_date(moment, format="long", locale=locale)


def month(moment: date, locale: Locale) -> str:
    return format_date(moment, format="MMM y", locale=locale)


def decimal_sign(locale: Locale) -> str:
    """Point or comma, for numbers in input fields. Other signs are hard to type."""
    return "," if get_decimal_symbol(locale) == "," else "."
