"""The format of `traceparent`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.process.telemetry.trace_context import TraceContext, parse_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.integers(0, 255))
def test_every_valid_context_is_read(trace_id: int, span_id: int, flags: int) -> None:
    text = f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"
    assert parse_context(text) == TraceContext(trace_id, span_id, flags % 2 == 1)


def test_fields_of_a_later_version_are_ignored() -> None:
    assert parse_context(f"01-{TRACE}-{SPAN}-01-more") == TraceContext(int(TRACE, 16), int(SPAN, 16), is_sampled=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01 ",
        f"00-{TRACE}-{SPAN}-01\n",
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
    assert parse_context(text) is None


@given(st.text(max_size=80))
def test_no_text_breaks_it(text: str) -> None:
    parse_context(text)
