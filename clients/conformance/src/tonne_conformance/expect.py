"""What a check expects. A failure says what was expected, what came, and in which request."""

import json
import re
from collections.abc import Collection
from datetime import datetime
from typing import Any, Never, Protocol

# Of the interface: decimal strings.
DECIMAL = r"[0-9]+(\.[0-9]+)?"
SHOWN_CHARACTERS = 600


class Source(Protocol):
    """What came from a request whose id is known."""

    @property
    def request_id(self) -> str: ...


class Failed(Exception):
    def __init__(self, expected: str, came: object, source: Source | None = None) -> None:
        self.expected = expected
        self.came = show(came)
        self.request_id = source.request_id if source is not None else ""
        super().__init__(f"Expected {expected}. Came: {self.came}.")


def show(value: object) -> str:
    """Texts as they are, everything else and the empty text as JSON, shortened."""
    is_text = isinstance(value, str) and value != ""
    text = str(value) if is_text else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def fail(expected: str, came: object, source: Source | None = None) -> Never:
    raise Failed(expected, came, source)


def expect(condition: bool, expected: str, came: object, source: Source | None = None) -> None:
    if not condition:
        fail(expected, came, source)


def equal(came: object, expected: object, source: Source | None = None) -> None:
    """The same JSON: 1 is neither true nor 1.0, and the order of members does not matter."""
    same = json.dumps(came, sort_keys=True, default=str) == json.dumps(expected, sort_keys=True, default=str)
    expect(same, show(expected), came, source)


def one_of(came: object, allowed: Collection[object], source: Source | None = None) -> None:
    expect(came in allowed, f"one of {show(list(allowed))}", came, source)


def matches(came: object, pattern: str, source: Source | None = None) -> None:
    """The whole text."""
    found = isinstance(came, str) and re.fullmatch(pattern, came) is not None
    expect(found, f"a string of the pattern ^{pattern}$", came, source)


def decimal_string(came: object, source: Source | None = None) -> None:
    matches(came, DECIMAL, source)


def text(came: object, source: Source | None = None) -> None:
    expect(isinstance(came, str) and came != "", "a string that is not empty", came, source)


def has(document: Any, name: str, source: Source | None = None) -> None:
    """The member exists; its value may be null."""
    is_there = isinstance(document, dict) and name in document
    expect(is_there, f"an object with the member {name}", document, source)


def date_time(came: object, source: Source | None = None) -> datetime:
    """A date-time of RFC 3339, with its offset."""
    expected = "a date-time with its offset from UTC"
    matches(came, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", source)
    try:
        return datetime.fromisoformat(str(came))
    except ValueError:
        fail(expected, came, source)
