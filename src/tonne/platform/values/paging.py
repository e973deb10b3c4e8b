"""Keyset pagination, newest first, over (created_at, id). New items neither shift nor repeat others."""

import base64
import binascii
import hashlib
import re
import struct
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from tonne.platform.values.errors import Kind, TonneError

DEFAULT_LIMIT = 10
MAX_LIMIT = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = struct.Struct(">q")
# Detects cursors of other lists and mistakes. Not a protection against forgery: the query itself is scoped.
_CHECK_BYTES = 6
_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)


class LimitInvalid(TonneError, kind=Kind.INVALID, code="pagination_limit_invalid"):
    """`limit` is not a whole number from 1 to 100.

    Send a number in that range.
    """

    message = f"limit must be a whole number from 1 to {MAX_LIMIT}."


class CursorInvalid(TonneError, kind=Kind.INVALID, code="pagination_cursor_invalid"):
    """`after` is not a cursor of this list with these filters and this account.

    Pass `next_cursor` unchanged, or start again without `after`.
    """

    message = "after is not a cursor of this list: pass next_cursor unchanged, or omit it for the first page."


class Position(Struct, frozen=True):
    """The last item of the previous page."""

    created_at: datetime
    id: str


# Newer than every item: with it, the first page uses the same query and plan as the others.
START = Position(datetime(9999, 12, 31, tzinfo=UTC), "\U0010ffff")


def parse_limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= MAX_LIMIT:
        raise LimitInvalid(field="limit")
    return int(text)


def make_cursor(position: Position, list_name: str) -> str:
    """`list_name` identifies the list (account and filter). The cursor is valid only for that list."""
    raw = _MOMENT.pack((position.created_at - _EPOCH) // timedelta(milliseconds=1)) + position.id.encode()
    check = hashlib.blake2b(b"%b\0%b" % (list_name.encode(), raw), digest_size=_CHECK_BYTES).digest()
    return base64.urlsafe_b64encode(check + raw).rstrip(b"=").decode()


def parse_cursor(text: str | None, list_name: str) -> Position:
    if text is None:
        return START
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)[_CHECK_BYTES:]
        (milliseconds,) = _MOMENT.unpack_from(raw)
        position = Position(_EPOCH + timedelta(milliseconds=milliseconds), raw[_MOMENT.size :].decode("ascii"))
        genuine = make_cursor(position, list_name) == text
    except (binascii.Error, struct.error, ValueError, OverflowError) as error:
        raise CursorInvalid(field="after") from error
    if not genuine:
        raise CursorInvalid(field="after")
    return position
