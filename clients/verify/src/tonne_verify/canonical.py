"""Canonical JSON (RFC 8785) for strings, integers, booleans, null, lists and objects."""

import json
from typing import Any

from tonne_verify.errors import NotProven

# Larger integers are not exact in every implementation of JSON.
MAX_INTEGER = (1 << 53) - 1
MAX_DEPTH = 50


def canonical_json(value: Any) -> bytes:
    """Raises NotProven for values that have no canonical form here, such as 0.1."""
    try:
        return json.dumps(_sorted(value, 0), ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise NotProven("The JSON contains half of a surrogate pair, which no text has.") from None


def _sorted(value: Any, depth: int) -> Any:
    """The value with the keys of objects in the order of their UTF-16 code units."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise NotProven(f"The JSON contains {value}, which is too large to be exact. Use a string.")
        return value
    if depth >= MAX_DEPTH:
        raise NotProven("The JSON is nested too deeply.")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise NotProven("The keys of a JSON object must be strings.")
        keys = sorted(value) if all(map(str.isascii, value)) else sorted(value, key=_utf_16)
        return {key: _sorted(value[key], depth + 1) for key in keys}
    if isinstance(value, list | tuple):
        return [_sorted(each, depth + 1) for each in value]
    raise NotProven(f"The JSON contains {value!r}, which is neither a string, an integer, null, a list nor an object.")


def _utf_16(key: str) -> bytes:
    return key.encode("utf-16-be")


def read_json(text: bytes | str) -> Any:
    """Reads JSON, and refuses an object that has a key twice: readers would disagree about its value."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise NotProven("This is not JSON.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotProven("The JSON has a key twice in one object.")
    return found


def _refuse(constant: str) -> None:
    raise NotProven(f"The JSON contains {constant}.")
