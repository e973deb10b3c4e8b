"""Extracts the messages of the source and updates the catalogues: `make translations`."""

from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.pofile import read_po, write_po

from tonne.money.cards.gateways.card_simulated import SIMULATED_CARDS
from tonne.platform.values.language import DEFAULT_LANGUAGE, LANGUAGES

ROOT = Path(__file__).parents[2]
LOCALE = ROOT / "src" / "tonne" / "platform" / "web" / "locale"
TEMPLATE = LOCALE / "tonne.pot"
TRANSLATED = [code for code in LANGUAGES if code != DEFAULT_LANGUAGE]
# The packages with pages for customers and visitors. The dashboard and the operator's pages are English.
PAGES = (
    "platform/web",
    "channels/public_pages/site",
    "money/cards",
    "channels/checkout",
    "channels/public_pages",
    "supply/transparency",
)
_KEYWORDS = {**DEFAULT_KEYWORDS, "plural": (1, 2)}
# As the renderer sets up Jinja. `silent` would ignore templates with a syntax error.
_JINJA = {"extensions": "jinja2.ext.i18n", "newstyle_gettext": "true", "trimmed": "true", "silent": "false"}
# A constant: the date of the last run would change every file on every run.
_CREATED = datetime(2026, 11, 17, tzinfo=UTC)
_HEADER = (
    "# Messages of Tonne's pages, mails and PDFs. `make translations` updates this file; docs/languages.md says how.\n#"
)


def path_of(language: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / "tonne.po"


def extract() -> Catalog:
    """All messages that the source marks."""
    pages = [f"tonne/{package}/templates/**.html" for package in PAGES]
    methods = [("tonne/**.py", "python"), *((pattern, "jinja2") for pattern in pages)]
    found = Catalog(creation_date=_CREATED)
    _describe(found)
    for name, _, message, comments, context in extract_from_dir(
        ROOT / "src",
        methods,
        dict.fromkeys(pages, _JINJA),
        _KEYWORDS,
        comment_tags=("Translators:",),
        strip_comment_tags=True,
    ):
        found.add(message, None, [(f"src/{name}", 0)], auto_comments=comments, context=context)
    for card in SIMULATED_CARDS:
        found.add(card.behaviour, None, [("src/tonne/money/cards/gateways/simulated_cards.toml", 0)])
    return found


def read(language: str) -> Catalog:
    with path_of(language).open("rb") as file:
        return read_po(file, locale=language)


def main() -> None:
    template = extract()
    LOCALE.mkdir(exist_ok=True)
    _write(TEMPLATE, template)
    for language in TRANSLATED:
        path = path_of(language)
        path.parent.mkdir(parents=True, exist_ok=True)
        catalogue = read(language) if path.exists() else Catalog(locale=language)
        catalogue.update(template, no_fuzzy_matching=True)
        _describe(catalogue)
        for message in catalogue:
            # Babel marks a message that has got a plural. It is empty now, and has to be translated anyway.
            if not any(_texts(message.string)):
                message.flags.discard("fuzzy")
        _write(path, catalogue)
        missing = sum(1 for message in catalogue if message.id and not any(_texts(message.string)))
        print(f"{path.relative_to(ROOT)}: {len(catalogue)} messages, {missing} without a translation")  # noqa: T201


def _describe(catalogue: Catalog) -> None:
    """The header: without dates and people, which would differ from run to run."""
    catalogue.header_comment, catalogue.fuzzy = _HEADER, False
    catalogue.project, catalogue.version, catalogue.msgid_bugs_address = "Tonne", "1", "-"
    catalogue.last_translator, catalogue.language_team = "Tonne", "Tonne"
    catalogue.revision_date = _CREATED


def _texts(string: object) -> tuple[object, ...]:
    return string if isinstance(string, tuple) else (string,)


def _write(path: Path, catalogue: Catalog) -> None:
    with path.open("wb") as file:
        write_po(file, catalogue, width=120, sort_by_file=True, ignore_obsolete=True, include_lineno=False)


if __name__ == "__main__":
    main()
