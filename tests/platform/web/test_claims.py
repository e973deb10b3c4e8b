"""Default texts make no claim that Directive (EU) 2024/825 forbids: docs/claims.md says what to write instead."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.catalogues import ROOT, TEMPLATE, TRANSLATED, read
from tonne.platform.values.language import LANGUAGES

SOURCE = ROOT / "src" / "tonne"
# That a product, a trip or somebody is neutral, reduced or positive because of credits; and generic claims.
FORBIDDEN = {
    "en": r"""neutral|net[- ]zero|(climate|carbon)[- ](positive|negative|compensated|free)|(zero|
              no)[- ]emissions?\b(?![ ]factor)|
              (climate|eco|environmentally|planet)[- ]?friendly|(fully|completely|100 ?%)[ ]offset|
              \boffset(s|ting)?[ ](your|my|our|this|the|a|an)[ ]|(is|are|was|were|been)[ ]offset\b|
              \boffset[ ](trip|flight|journey|delivery|product|order)""",
    "de": r"""neutral|netto-?null|klima(positiv|kompensiert|freundlich)|(umwelt|öko)freundlich|emissionsfrei|CO₂-frei|
              (ist|sind|wird|werden|wurde|wurden|vollständig)[ ]kompensiert|kompensieren[ ]Sie|kompensiert(e|er|es|
              en)\b""",
    "fr": r"""neutre|neutralité|zéro[ ]émission|(climatiquement|écologiquement)[ ]positif|respectueux|
              éco-?responsable|
              compensez[ ](votre|vos)|compensée?s?\b""",
    "es": r"""neutr[oa]|neutral|cero[ ]emisiones|emisiones[ ]cero|respetuos|clima[ ]positiv|compense[ ](su|sus)|
              compensad""",
    "it": r"""neutr[oai]|neutral|zero[ ]emissioni|emissioni[ ]zero|rispettos|clima[ ]positiv|compens(a|i|are)[ ](il|
              la|i|le|l’)|compensat""",
    "nl": r"""neutraal|klimaat(positief|vriendelijk)|milieuvriendelijk|uitstootvrij|zonder[ ]uitstoot|
              compenseer[ ](uw|je)|
              gecompenseerd""",
}
# A disclaimer, a mass that is bought, and the name of an authority.
ALLOWED = (
    "so it isn't proof that any of them is neutral",
    "The estimate whose mass is offset.",
    "Offsetting this mass costs",
    "Energy Security and Net Zero",
)
MARKUP = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)


def claims(text: str, language: str) -> list[str]:
    return [found[0] for found in re.finditer(FORBIDDEN[language], text, re.IGNORECASE | re.VERBOSE)]


def strings(source: str) -> Iterator[str]:
    """All but descriptions of modules, classes and functions."""
    tree = ast.parse(source)
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    descriptions = {id(value) for value in statements if isinstance(value, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in descriptions:
            yield node.value


def test_every_language_has_a_list() -> None:
    assert FORBIDDEN.keys() == set(LANGUAGES) == {"en", *TRANSLATED}


@pytest.mark.parametrize("language", TRANSLATED)
def test_translations_make_no_forbidden_claim(language: str) -> None:
    found = {
        str(text): claims(text, language)
        for message in read(language)
        for text in ([message.string] if isinstance(message.string, str) else message.string or ())
        if not any(each in str(message.id) for each in ALLOWED)
    }
    assert {text: said for text, said in found.items() if said} == {}


def test_english_texts_make_no_forbidden_claim() -> None:
    texts = {str(TEMPLATE.name): TEMPLATE.read_text(encoding="utf-8")}
    for pattern in ("**/*.html", "**/*.typ", "**/*.txt"):
        for path in SOURCE.glob(pattern):
            # A class of badges has the name of a forbidden word.
            texts[str(path.relative_to(ROOT))] = MARKUP.sub(" ", path.read_text(encoding="utf-8"))
    for path in SOURCE.glob("**/*.py"):
        texts[str(path.relative_to(ROOT))] = "\n".join(strings(path.read_text(encoding="utf-8")))
    assert len(texts) > 500
    found = {}
    for name, raw in texts.items():
        text = " ".join(raw.replace('"\n"', "").split())
        for allowed in ALLOWED:
            text = text.replace(allowed, "")
        if said := claims(text, "en"):
            found[name] = said
    assert found == {}


def test_forbidden_claims_are_recognised() -> None:
    for language, text in (
        ("en", "Offset your flight"),
        ("en", "CO2 neutral delivery"),
        ("de", "Klimaneutraler Versand"),
        ("fr", "Compensez votre vol"),
        ("es", "Un vuelo neutro en carbono"),
        ("it", "Spedizione a zero emissioni"),
        ("nl", "Klimaatneutraal bezorgd"),
    ):
        assert claims(text, language), text
    assert not claims("For this parcel we retired 2.4 kg of carbon credits.", "en")
