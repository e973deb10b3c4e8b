"""Every text of pages, mails and PDFs is marked, and translated into every language. Nothing else is in a catalogue."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po
from jinja2 import Environment, nodes

from tests.support.catalogues import PAGES, ROOT, TEMPLATE, TRANSLATED, extract, read

SOURCE = ROOT / "src" / "tonne"
TEMPLATES = [
    path for package in (*PAGES, "gateways") for path in sorted((SOURCE / package / "templates").glob("*.html"))
]
# Attributes that people read or hear.
_SHOWN = {"alt", "aria-label", "label", "placeholder", "title"}
# The same in every language: units, names of formats, examples.
_UNTRANSLATED = re.compile(
    r"^(t|kg|CO₂|CO₂e|t CO₂e?|UTC|PDF|CSV|IBAN|BIC|SHA-256|Linux|macOS|Windows|OpenAPI|(placeholder=)?[\dA-Z -]+)$"
)
_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%(?!\()(.)")
_TAG = re.compile(r"</?([a-z]+)")
_SENTENCE = re.compile(r"[A-Z“][\w’']*( [\w’'%()-]+){2,}.*[.:?!…]$", re.DOTALL)
_MARKS = {"_", "N_", "plural", "gettext", "ngettext", "pgettext"}


def has_words(text: str) -> bool:
    return re.search(r"[^\W\d_]", text) is not None and _UNTRANSLATED.match(text.strip("0 ·()")) is None


class _Texts(HTMLParser):
    """What is left of a template without its expressions: the text that would be shown in every language."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in {"script", "style", "code"}
        names = dict(attrs)
        shown = {name: value or "" for name, value in attrs if name in _SHOWN}
        if tag == "meta" and names.get("name") == "description":
            shown["content"] = names.get("content") or ""
        self.found += [f"{name}={value}" for name, value in shown.items() if has_words(value)]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"script", "style", "code"}

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            text = " ".join(data.split())
            self.found += [text] if has_words(text) else []


def untranslated_texts(source: str) -> list[str]:
    tree = Environment(extensions=["jinja2.ext.i18n"], autoescape=True).parse(source)
    texts = _Texts()
    texts.feed("".join(_raw(tree)))
    texts.close()
    return [*texts.found, *_constants(tree)]


def _raw(node: nodes.Node) -> Iterator[str]:
    """The text outside of expressions. A shown expression becomes a digit, which is no text."""
    if isinstance(node, nodes.Output):
        for shown in node.nodes:
            yield shown.data if isinstance(shown, nodes.TemplateData) else "0"
        return
    for child in node.iter_child_nodes():
        yield from _raw(child)


def _constants(node: nodes.Node) -> Iterator[str]:
    """Strings of expressions that look like text for people, and are not marked."""
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name in _MARKS:
        return
    if isinstance(node, (nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)):
        return
    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        if re.search(r"^[A-Z]\w*,? [^\W\d_]", node.value) or re.fullmatch(r"[A-Z][a-z]+[.…]?", node.value):
            yield node.value
        return
    for child in node.iter_child_nodes():
        yield from _constants(child)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_a_template_has_no_text_that_cannot_be_translated(path: Path) -> None:
    assert untranslated_texts(path.read_text(encoding="utf-8")) == []


def test_the_check_of_templates_finds_what_is_not_marked() -> None:
    bad = """<title>Hello {{ name }}</title><img alt="A tree" src="{{ x }}"><p{% if a %} class="b"{% endif %}>
          {{ "Pay" if a else _("Go") }}{% trans %}Yes{% endtrans %} {{ field("n", "Your name") }}</p><b>{{ 1 }} t</b>"""
    assert sorted(untranslated_texts(bad)) == ["Hello 0", "Pay", "Your name", "alt=A tree"]


def translated_modules() -> list[Path]:
    """Modules that translate: a text in one of them is for people. Errors of the API are English."""
    return [
        path
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name not in {"errors.py", "language.py"}
        and not {"dashboard", "workspace", "backoffice", "cli"} & set(path.relative_to(SOURCE).parts[:1])
        and re.search(
            r"^from tonne\.base\.language import .*\b(translator|Translator)\b", path.read_text(), re.MULTILINE
        )
    ]


def unmarked_sentences(source: str) -> list[str]:
    tree = ast.parse(source)
    ignored = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        called = None
        if isinstance(node, ast.Call):
            function = node.func
            called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
        # Exceptions that are no TonneError are for developers.
        if called in _MARKS or (called or "").endswith(("Error", "Meta")):
            ignored |= {id(child) for child in ast.walk(node)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in ignored
        if _SENTENCE.match(node.value)
    ]


def test_modules_that_translate_have_no_unmarked_sentence() -> None:
    found = {path.relative_to(SOURCE).as_posix(): unmarked_sentences(path.read_text()) for path in translated_modules()}
    assert {name: texts for name, texts in found.items() if texts} == {}
    assert unmarked_sentences(
        '"""A docstring is fine."""\nx = "This is not marked."\ny = _("This one is marked.")'
    ) == ["This is not marked."]


@cache
def messages() -> Catalog:
    return extract()


def key_of(message: Message) -> tuple[str, ...]:
    return tuple(message.id) if isinstance(message.id, (list, tuple)) else (message.id,)


def identity_of(message: Message) -> tuple[str, ...]:
    return (message.context or "", *key_of(message))


def strings_of(message: Message) -> tuple[str, ...]:
    return tuple(message.string) if isinstance(message.string, (list, tuple)) else (message.string or "",)


def test_the_template_has_exactly_the_messages_of_the_source() -> None:
    with TEMPLATE.open("rb") as file:
        stored = read_po(file)
    found, kept = ({identity_of(message) for message in each if message.id} for each in (messages(), stored))
    assert found == kept, "run `make translations`"


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_catalogue_is_complete(language: str) -> None:
    catalogue = read(language)
    marked = {identity_of(message) for message in messages() if message.id}
    stored = {identity_of(message): message for message in catalogue if message.id}
    assert {"missing": marked - stored.keys(), "unused": stored.keys() - marked} == {
        "missing": set(),
        "unused": set(),
    }
    wrong = {key: problem for key, message in stored.items() if (problem := _problem(message, catalogue.num_plurals))}
    assert wrong == {}
    assert not catalogue.obsolete


def _problem(message: Message, plurals: int) -> str | None:
    key, strings = key_of(message), strings_of(message)
    if message.fuzzy:
        return "fuzzy"
    if not all(string.strip() for string in strings) or (len(key) > 1 and len(strings) != plurals):
        return "not translated"
    for string in strings:
        # A plural form may leave out the number: "one certificate".
        allowed = [_values(each) for each in key]
        if _values(string) not in allowed and not (len(key) > 1 and _values(string) <= _values(key[-1])):
            return f"other placeholders: {string}"
        if sorted(_TAG.findall(string)) not in [sorted(_TAG.findall(each)) for each in key]:
            return f"other HTML elements: {string}"
        if string[:1].isspace() != key[0][:1].isspace() or string[-1:].isspace() != key[0][-1:].isspace():
            return f"other spaces at the ends: {string!r}"
    return None


def _values(text: str) -> frozenset[str]:
    """The placeholders, and what follows a `%` that begins none: only `%%` is correct."""
    return frozenset(match[1] or f"%{match[2]}" for match in _PLACEHOLDER.finditer(text))
