"""Translations of the texts for customers and visitors, from the gettext catalogues in `locale`."""

import gettext
from functools import cache
from importlib import resources
from io import BytesIO

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from tonne.platform.values.language import DEFAULT_LANGUAGE, LANGUAGES


class Translator:
    """Translates into one language. A message without a translation stays English."""

    __slots__ = ("_catalogue", "language")

    def __init__(self, language: str, catalogue: gettext.NullTranslations) -> None:
        self.language = language
        self._catalogue = catalogue

    def __call__(self, message: str, /, **values: object) -> str:
        """Always formats with `%`, as templates do: a literal per cent sign is written `%%`."""
        return self._catalogue.gettext(message) % values

    def plural(self, one: str, many: str, n: int, /, **values: object) -> str:
        """`n` is also a value of the message: `%(n)s`. Pass `n=` to show it formatted."""
        return self._catalogue.ngettext(one, many, n) % {"n": n, **values}

    def text(self, message: str) -> str:
        """The translation of a complete text, which is not formatted."""
        return self._catalogue.gettext(message) if message else ""

    def text_of(self, context: str, message: str) -> str:
        """Like `text`, for a message that other languages translate differently in another context."""
        return self._catalogue.pgettext(context, message)

    def plural_text(self, one: str, many: str, n: int) -> str:
        """Like `text`, for the form of the message that belongs to `n`."""
        return self._catalogue.ngettext(one, many, n)


def translator(language: str) -> Translator:
    """The translator of a language of `LANGUAGES`. Any other code gets English."""
    return _translator(language if language in LANGUAGES else DEFAULT_LANGUAGE)


@cache
def _translator(language: str) -> Translator:
    """Reads the catalogue on first use, and keeps it: reading one takes some 50 ms."""
    if language == DEFAULT_LANGUAGE:
        return Translator(language, gettext.NullTranslations())
    file = resources.files("tonne.platform.web") / "locale" / language / "LC_MESSAGES" / "tonne.po"
    compiled = BytesIO()
    # The catalogues are compiled in memory, so that no compiled file can be older than its source.
    with file.open("rb") as source:
        write_mo(compiled, read_po(source, locale=language))
    compiled.seek(0)
    return Translator(language, gettext.GNUTranslations(compiled))
