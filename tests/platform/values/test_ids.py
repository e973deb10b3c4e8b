"""Ids have a prefix and sort by time."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.values.context import is_id, new_id, new_secret_id


def test_an_id_has_its_prefix_and_26_plain_characters() -> None:
    prefix, _, opaque = new_id("ord").partition("_")
    assert prefix == "ord"
    assert len(opaque) == 26
    assert set(opaque) <= set("0123456789abcdefghijklmnopqrstuv")


def test_ids_made_in_later_milliseconds_sort_after_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    # Far apart, one apart, and across every carry of the 48 bits.
    moments = sorted({0, 1, 2**8, 2**16 - 1, 2**16, 2**24, 2**40 - 1, 2**40, 1_800_000_000_000, 2**48 - 1})
    made = []
    for moment in moments:
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment * 1_000_000)
        made.append(new_id("ord"))
    assert made == sorted(made)


def test_ids_of_one_process_sort_as_they_were_made() -> None:
    made = [new_id("evt") for _ in range(10_000)]
    assert made == sorted(made)


def test_ids_of_one_nanosecond_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_800_000_000_000_000_000)
    assert len({new_id("evt") for _ in range(10_000)}) == 10_000


def test_a_secret_id_does_not_contain_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_800_000_000_000_000_000)
    # The first nine characters of other ids come from the clock.
    assert len({new_id("lnk")[:13] for _ in range(100)}) == 1
    assert len({new_secret_id("lnk")[:13] for _ in range(100)}) == 100
    assert is_id("lnk", new_secret_id("lnk"))


def test_an_id_is_recognised_by_its_prefix() -> None:
    made = new_id("acc")
    assert is_id("acc", made)
    assert not is_id("ac", made)
    assert not is_id("ord", made)
    assert not is_id("acc", made[:-1])
    assert not is_id("acc", made + "0")
    assert not is_id("acc", made + "\n")
    assert not is_id("acc", made.upper())


@given(st.text())
def test_other_text_is_not_an_id(text: str) -> None:
    assert not is_id("acc", text)
    assert not is_id("acc", f"acc_{text}") or (text.isascii() and text.isalnum() and len(text) == 26)
