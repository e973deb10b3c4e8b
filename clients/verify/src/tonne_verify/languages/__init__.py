"""The sentences of the verifier in the languages of its HTML report.

The checks make English sentences. A table has their translations: an English sentence is recognised by the words around
its values. A sentence that the table does not have stays English, and the report shows the English one in any case.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "de", "fr", "es", "it", "nl")
PLACEHOLDER = re.compile(r"\{([1-9]|s|n)\}")
# A text with more has a value that was made to look like sentences.
MAX_SENTENCES = 12
MAX_DEPTH = 3
BUILT_IN_POLICY = "the built-in policy"


@dataclass(frozen=True, slots=True)
class Template:
    """`literals` are the words before, between and after the values."""

    english: str
    literals: tuple[str, ...]
    kinds: tuple[str, ...]
    translations: Mapping[str, str]

    def match(self, text: str) -> list[str] | None:
        """The values in the text. Takes linear time, whatever the text."""
        if not self.kinds:
            return [] if text == self.english else None
        first, *between, last = self.literals
        start, end = len(first), len(text) - len(last)
        if start > end or not text.startswith(first) or not text.endswith(last):
            return None
        values = []
        for literal in between:
            found = text.find(literal, start, end)
            if found < 0:
                return None
            values.append(text[start:found])
            start = found + len(literal)
        return [*values, text[start:end]]


@cache
def templates() -> tuple[Template, ...]:
    """Those with the most words first: they say most exactly what the sentence is."""
    content = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8")
    found = [template for block in content.split("\n\n") for template in _read_block(block.splitlines())]
    return tuple(sorted(found, key=lambda each: -sum(map(len, each.literals))))


def _read_block(lines: Sequence[str]) -> Iterator[Template]:
    pairs = [(line[:2], line[3:]) for line in lines if line and not line.startswith("#")]
    for code, english in pairs:
        if code == "en":
            literals = tuple(PLACEHOLDER.split(english)[::2])
            yield Template(english, literals, tuple(PLACEHOLDER.findall(english)), dict(pairs))


@dataclass(frozen=True, slots=True)
class Language:
    code: str

    def say(self, english: str, *values: object) -> str:
        """A sentence of the report itself. Raises KeyError if the table does not have it."""
        if self.code == "en":
            return _fill(english, [str(each) for each in values])
        template = _by_english()[english]
        return _fill(template.translations[self.code], [str(each) for each in values], template.kinds)

    def sentences(self, text: str, depth: int = 0) -> str | None:
        """Each sentence of the text translated; None if the table does not have one of them."""
        starts = [0, *(each.end() for each in re.finditer(r"\. ", text))]
        if len(starts) > MAX_SENTENCES:
            return self.sentence(text, depth)
        ends = [*(start - 1 for start in starts[1:]), len(text)]
        # As many sentences as possible, so that none is taken for the value of another. From each start to the end.
        best: list[list[str] | None] = [*(None for _ in starts), []]
        for first in reversed(range(len(starts))):
            options = []
            for last in range(first, len(starts)):
                rest = best[last + 1]
                found = None if rest is None else self.sentence(text[starts[first] : ends[last]], depth)
                if rest is not None and found is not None:
                    options.append([found, *rest])
            best[first] = max(options, key=len, default=None)
        return None if best[0] is None else " ".join(best[0])

    def sentence(self, text: str, depth: int = 0) -> str | None:
        if self.code == "en":
            return text
        for template in templates():
            values = template.match(text)
            translated = None if values is None else self._values(template.kinds, values, depth)
            if translated is not None:
                return _fill(template.translations[self.code], translated, template.kinds)
        return None

    def _values(self, kinds: Sequence[str], values: Sequence[str], depth: int) -> list[str] | None:
        found = []
        for kind, value in zip(kinds, values, strict=True):
            if kind == "s":
                nested = self.sentences(value, depth + 1) if depth < MAX_DEPTH else None
                if nested is None:
                    return None
                found.append(nested)
            elif kind == "n":
                found.append(", ".join(self.sentence(each, MAX_DEPTH) or each for each in value.split(", ")))
            else:
                found.append(self.say(value) if value == BUILT_IN_POLICY else value)
        return found


@cache
def _by_english() -> dict[str, Template]:
    return {each.english: each for each in templates()}


def _fill(text: str, values: Sequence[str], kinds: Sequence[str] | None = None) -> str:
    """In one pass: a value may itself contain what looks like a placeholder."""
    named = dict(zip(kinds or [str(number) for number in range(1, 10)], values, strict=False))
    return PLACEHOLDER.sub(lambda found: named[found[1]], text)
