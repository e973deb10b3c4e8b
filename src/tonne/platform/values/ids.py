"""Identifiers: `<prefix>_<opaque>`."""

import re
import secrets
import time
from datetime import UTC, datetime, timedelta

_OPAQUE = re.compile(r"[a-z0-9]{26}")
# Base32 in an alphabet that sorts like the bytes. Encoding two letters at a time is ten times as fast as the standard
# library's encoder; every request needs several ids.
_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = range(120, -1, -10)
_MADE = re.compile(r"[a-z]+_([0-9a-v]{10})[0-9a-v]{16}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# 48 bits are enough for times that `datetime` cannot hold.
_MAX_MS = (datetime(9998, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def new_id(prefix: str) -> str:
    """An id that sorts by creation time: 48 bits of milliseconds, 20 of the nanoseconds in them, 60 random bits."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    random = int.from_bytes(secrets.token_bytes(8), "big") >> 4
    return _encode(prefix, milliseconds << 80 | nanoseconds << 60 | random)


def new_secret_id(prefix: str) -> str:
    """An id that is also a secret: 128 random bits."""
    return _encode(prefix, int.from_bytes(secrets.token_bytes(16), "big"))


def is_id(prefix: str, text: str) -> bool:
    """Whether `text` has the form of an id with this prefix. Others need no database lookup."""
    return text.startswith(f"{prefix}_") and _OPAQUE.fullmatch(text, len(prefix) + 1) is not None


def made_at(id_: str) -> datetime | None:
    """When an id of `new_id` was made; None for text that is no such id."""
    match = _MADE.fullmatch(id_)
    milliseconds = _MAX_MS if match is None else int(match[1], 32) >> 2
    return _EPOCH + timedelta(milliseconds=milliseconds) if milliseconds < _MAX_MS else None


def _encode(prefix: str, number: int) -> str:
    number <<= 2
    return f"{prefix}_{''.join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])}"
