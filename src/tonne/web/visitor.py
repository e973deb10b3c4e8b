"""Formats numbers, amounts and dates in the visitor's locale."""

import re
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache

from babel import Locale
from babel.dates import format_date
from babel.numbers import format_currency, format_decimal, format_percent, get_decimal_symbol

from tonne.base.decimals import format_scaled
from tonne.base.mass import format_tonnes
from tonne.base.money import format_money

DEFAULT = Locale("en")
_MAX_HEADER = 200
# A closed list: Babel keeps the data of every locale that was ever used, some 200 kB each.
_LOCALES = frozenset(
    re.findall(
        r"\w+",
        """ar ar_EG bg bn ca cs da de de_AT de_CH el en en_AU en_CA en_GB en_IE en_IN en_NZ en_US es es_MX et fa fi fr
        fr_CA fr_CH ga he hi hr hu id is it ja ko lt lv ms mt nb nl nl_BE no pl pt pt_BR pt_PT ro ru sk sl sr sv th tr
        uk vi zh zh_CN zh_TW""",
    )
)


def locale_of(accept_language: str) -> Locale:
    """The first language of the header that is in the list, English if there is none."""
    for part in accept_language[:_MAX_HEADER].split(","):
        language, _, territory = part.partition(";")[0].strip().replace("_", "-").partition("-")
        for name in (f"{language.lower()}_{territory.upper()}", language.lower()):
            if name in _LOCALES:
                return _locale(name)
    return DEFAULT


@cache
def _locale(name: str) -> Locale:
    return Locale.parse(name)


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
