"""Masks what a request to the API contains about persons, before it is stored in the request log.

Only values of fields on a list are kept, and only if they look like an id, a number or a word: an e-mail address in a
misspelt field must not be stored either.
"""

import re
from typing import Any

import msgspec

MASK = "[masked]"
MAX_BODY_BYTES = 4096
MAX_MESSAGE = 1000
# A larger body is not parsed.
MAX_RAW_BYTES = 16 * 1024
_MAX_DEPTH = 16
_MAX_REPLACED = 100
# Fields with amounts, ids, words and times. Never names, addresses, texts or what clients call their objects.
_SHOWN = frozenset(
    {
        *("account_id", "account_ids", "account_type", "amount", "amount_editable", "available_quantity"),
        *("bundle_id", "bundle_ids", "bundle_selection", "code", "currency", "default_account_id", "enabled"),
        *("estimate_id", "event_id", "expires_at", "kind", "mass", "max_quantity", "max_value", "media_type"),
        *("min_quantity", "min_value", "offset_link_id", "order_id", "outcome", "overlap_hours", "overlap_s"),
        *("percentage", "permissions", "preset_quantity", "preset_value", "quantity", "refund"),
        *("sequence", "unit", "value"),
    }
)
_PLAIN = re.compile(r"[A-Za-z0-9_.:+/-]{0,64}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}", re.ASCII)
_ADDRESS = re.compile(r"[^\s@\"'<>]+@[^\s@\"'<>]+")


class Masked(msgspec.Struct, frozen=True):
    """`body` is None if there is none that can be stored safely."""

    body: str | None
    message: str


def mask_request(body: bytes, message: str) -> Masked:
    """The masked body, at most 4 KiB, and the message without what was masked in the body."""
    hidden: set[str] = set()
    text = None
    if 0 < len(body) <= MAX_RAW_BYTES:
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # What cannot be parsed cannot be masked.
            return Masked(None, _mask_message(message, hidden))
        text = _cut(msgspec.json.encode(_mask(value, hidden, shown=False, depth=0)))
    return Masked(text, _mask_message(message, hidden))


def _mask(value: Any, hidden: set[str], *, shown: bool, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return MASK
    if isinstance(value, dict):
        return {
            _name(name, hidden): _mask(each, hidden, shown=name in _SHOWN, depth=depth + 1)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_mask(each, hidden, shown=shown, depth=depth + 1) for each in value]
    if value is None or isinstance(value, bool):
        return value
    text = str(value)
    if shown and _PLAIN.fullmatch(text):
        return value
    hidden.add(text)
    return MASK


def _name(name: str, hidden: set[str]) -> str:
    if _NAME.fullmatch(name):
        return name
    hidden.add(name)
    return MASK


def _mask_message(message: str, hidden: set[str]) -> str:
    """Messages may repeat a value. The longest ones first: one may be a part of another."""
    for text in sorted(hidden, key=len, reverse=True)[:_MAX_REPLACED]:
        if len(text) > 2:
            message = message.replace(text, MASK)
    return _ADDRESS.sub(MASK, message).replace("\x00", "")[:MAX_MESSAGE]


def _cut(text: bytes) -> str:
    if len(text) <= MAX_BODY_BYTES:
        return text.decode()
    return text[: MAX_BODY_BYTES - 3].decode("utf-8", "ignore") + "…"
