"""The format of `traceparent`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.process.telemetry.tracing_sdk import read_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_every_valid_context_is_read(trace_id: int, span_id: int, flags: int) -> None:
    text = f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"
    found = read_context(text)
    assert (found.trace_id, found.span_id, found.trace_flags.sampled) == (trace_id, span_id, flags % 2 == 1)


@pytest.mark.parametrize("text", [f"01-{TRACE}-{SPAN}-01-more", f"00-{TRACE}-{SPAN}-01 ", f"00-{TRACE}-{SPAN}-01\n"])
def test_fields_of_a_later_version_and_white_space_are_ignored(text: str) -> None:
    found = read_context(text)
    assert (found.trace_id, found.span_id, found.trace_flags.sampled) == (int(TRACE, 16), int(SPAN, 16), True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0x",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    assert not read_context(text).is_valid


@given(st.text(max_size=80))
def test_no_text_breaks_it(text: str) -> None:
    read_context(text)
