"""The languages of the texts for customers and visitors, and the mark of such texts.

Only literal strings can be extracted: `_("Pay %(amount)s", amount=shown)`. A text that is defined where no language is
known yet is marked with `N_` and translated where it is shown.
"""

from enum import StrEnum

# The languages, each by its own name. English is the language of the source code and has no catalogue.
LANGUAGES = {
    "en": "English",
    "de": "Deutsch",
    "fr": "Français",
    "es": "Español",
    "it": "Italiano",
    "nl": "Nederlands",
}
DEFAULT_LANGUAGE = "en"


class LanguageCode(StrEnum):
    """The codes of `LANGUAGES`, as the API validates them."""

    EN = "en"
    DE = "de"
    FR = "fr"
    ES = "es"
    IT = "it"
    NL = "nl"


def N_(message: str) -> str:  # noqa: N802 - the name by which gettext tools find marked messages
    """Mark a message for extraction and return it unchanged."""
    return message
