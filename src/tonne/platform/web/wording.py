"""Texts, amounts, quantities and dates in one language, for mails and documents."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

from babel import Locale
from babel.lists import format_list
from msgspec import Struct

from tonne.platform.web import visitor
from tonne.platform.web.translate import Translator, translator

# Unambiguous in every country: `17 November 2026`, `US$5.00`.
_ENGLISH = "en_GB"


class LocalWording(Struct, frozen=True):
    translate: Translator
    locale: Locale

    @property
    def code(self) -> str:
        return self.translate.language

    def money(self, amount_minor: int, currency: str) -> str:
        return visitor.money(amount_minor, currency, self.locale)

    def amount(self, decimal: str, currency: str) -> str:
        """Like `money`, for an amount as records have it: `156.39`."""
        return visitor.amount(Decimal(decimal), currency, self.locale)

    def mass(self, grams: int) -> str:
        """To the gram: `1.5 t`."""
        return visitor.exact(grams, self.locale)

    def tonnes(self, decimal: str) -> str:
        """Like `mass`, for a quantity as records have it."""
        return f"{visitor.number(decimal, self.locale)}\u00a0t"

    def count(self, number: int) -> str:
        return visitor.number(str(number), self.locale)

    def percent(self, part: Fraction) -> str:
        return visitor.percent(part, self.locale)

    def day(self, when: datetime | date | str) -> str:
        """`31 March 2026`. Moments are in UTC; a text is an ISO date."""
        if isinstance(when, str):
            when = date.fromisoformat(when[:10])
        return visitor.day(when.astimezone(UTC) if isinstance(when, datetime) else when, self.locale)

    def minute(self, at: datetime) -> str:
        """`31 March 2026, 09:30 UTC`"""
        return f"{self.day(at)}, {at.astimezone(UTC):%H:%M} UTC"

    def listed(self, words: Sequence[str]) -> str:
        """`a, b and c`"""
        return format_list(list(words), locale=self.locale)


def wording_in(code: str) -> LocalWording:
    """English for a code that is not one of ours."""
    translate = translator(code)
    return LocalWording(translate, Locale.parse(_ENGLISH if translate.language == "en" else translate.language))


ENGLISH = wording_in("en")
