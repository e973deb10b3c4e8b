"""Removes addresses and names from texts and JSON that clients wrote."""

import json
import re
from collections.abc import Iterable
from typing import overload
from urllib.parse import quote

from msgspec import Struct

from tonne.platform.values.erased import ERASED

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Redaction(Struct, frozen=True):
    """`pattern` matches the data, also inside of a longer text. It does not match a part of another word or address."""

    pattern: re.Pattern[str]

    @overload
    def text(self, text: str) -> str: ...

    @overload
    def text(self, text: None) -> None: ...

    def text(self, text: str | None) -> str | None:
        return None if text is None else self.pattern.sub(ERASED, text)

    def json(self, document: str) -> str:
        """JSON with the data removed from all strings. The rest keeps its bytes."""
        return _STRING.sub(self._string, document)

    @overload
    def key(self, key: str, id_: str) -> str: ...

    @overload
    def key(self, key: None, id_: str) -> None: ...

    def key(self, key: str | None, id_: str) -> str | None:
        """An idempotency key. One that contains the data is replaced as a whole, so that it stays unique."""
        return key if key is None or not self.pattern.search(key) else f"{ERASED} {id_}"

    def changes(self, *texts: str | None) -> bool:
        """Whether one of these texts or JSON documents contains the data."""
        return any(text and (self.pattern.search(text) or self.json(text) != text) for text in texts)

    def _string(self, found: re.Match[str]) -> str:
        text = json.loads(found[0])
        redacted = self.pattern.sub(ERASED, text)
        return found[0] if redacted == text else json.dumps(redacted, ensure_ascii=False)


def redaction_of(values: Iterable[str]) -> Redaction:
    spellings = {spelling for value in values for spelling in (value, quote(value, safe=""), quote(value))}
    # The longest first: a name may be the beginning of another one.
    parts = [_part(spelling) for spelling in sorted(spellings, key=len, reverse=True)]
    return Redaction(re.compile("|".join(parts) or r"(?!)", re.IGNORECASE))


def _part(value: str) -> str:
    if "@" in value or "%40" in value:
        return rf"(?<![\w.+-]){re.escape(value)}(?![\w-]|\.\w)"
    return rf"(?<!\w){re.escape(value)}(?!\w)"
