"""Cursors and limits: valid ones are parsed, all others are refused."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tonne.platform.values.context import new_id
from tonne.platform.values.paging import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    START,
    CursorInvalid,
    LimitInvalid,
    Position,
    make_cursor,
    parse_cursor,
    parse_limit,
)

LIST = "orders acc_1 None"
_AT = datetime(2026, 11, 15, 10, 0, 0, 123_000, UTC)
_milliseconds = st.integers(0, 253_370_764_800_000)
_ids = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=60)


@given(_milliseconds, _ids)
def test_a_cursor_is_parsed_to_its_position(milliseconds: int, item_id: str) -> None:
    position = Position(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds), item_id)
    assert parse_cursor(make_cursor(position, LIST), LIST) == position


def test_a_cursor_needs_no_url_encoding() -> None:
    for _ in range(200):
        cursor = make_cursor(Position(_AT, new_id("ord")), LIST)
        assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_without_a_cursor_the_page_starts_before_every_item() -> None:
    assert parse_cursor(None, LIST) is START
    assert datetime(9000, 1, 1, tzinfo=UTC) < START.created_at
    assert new_id("ord") < START.id


@pytest.mark.parametrize("other", ["orders acc_2 None", "orders acc_1 lnk_1", "bundles acc_1 None", ""])
def test_a_cursor_of_another_account_or_filter_is_refused(other: str) -> None:
    cursor = make_cursor(Position(_AT, "ord_1"), other)
    with pytest.raises(CursorInvalid):
        parse_cursor(cursor, LIST)


def _forged(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


_genuine = base64.urlsafe_b64decode(make_cursor(Position(_AT, ""), LIST) + "==")
_mark = _genuine[8:12]


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "=", "====", "a", "ab", "null", "0", "-1", "%", "٣", "🌍", "\x00", "a b", "a\nb", "\ud800"),
        *("A" * 5, "A" * 100_000, "../../etc/passwd", "' OR 1=1 --"),
        _forged(b"\x7f" + b"\xff" * 7 + _mark + b"ord_1"),  # the furthest time a number can hold
        _forged(b"\x80" + b"\x00" * 7 + _mark + b"ord_1"),  # and the earliest
        _forged(_genuine + b"ord_\x00"),  # NUL, which no text column takes
        _forged(_genuine + "ord_é".encode()),
        _forged(_genuine + b"\xff\xfe"),
        _forged(_genuine[:11]),  # shorter than its own head
        _forged(_genuine[:8] + b"\x00\x00\x00\x00" + b"ord_1"),
    ],
)
def test_a_hostile_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(CursorInvalid) as refusal:
        parse_cursor(cursor, LIST)
    assert refusal.value.faults[0].field == "after"


@given(
    st.one_of(st.text(), st.binary().map(_forged), st.binary(min_size=8, max_size=8).map(lambda b: _forged(b + _mark)))
)
@example("=" * 7)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        position = parse_cursor(text, LIST)
    except CursorInvalid:
        return
    assert position.created_at.tzinfo is UTC
    assert position.id.isascii()
    assert "\x00" not in position.id


@pytest.mark.parametrize(
    ("text", "limit"), [(None, DEFAULT_LIMIT), ("1", 1), ("10", 10), ("100", MAX_LIMIT), ("007", 7)]
)
def test_a_limit_is_a_whole_number_from_1_to_100(text: str | None, limit: int) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize(
    "text",
    ["0", "101", "1.5", "٣", "١٠", "-1", "+1", "", " 1", "1 ", "1\n", "1e1", "0x1", "ten", "²", "9" * 5000, "000"],
)
def test_any_other_limit_is_refused(text: str) -> None:
    with pytest.raises(LimitInvalid) as refusal:
        parse_limit(text)
    assert refusal.value.faults[0].field == "limit"
