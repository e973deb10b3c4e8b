"""The format of the header `traceparent` (W3C Trace Context)."""

import re
from typing import NamedTuple

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:\Z|-)", re.ASCII)
_VERSION_0_LENGTH = 55


class TraceContext(NamedTuple):
    trace_id: int
    span_id: int
    is_sampled: bool


def parse_context(text: str) -> TraceContext | None:
    """None if it is malformed. Fields that a later version of the format adds are ignored."""
    found = _FORM.match(text)
    if found is None or (text.startswith("00") and len(text) != _VERSION_0_LENGTH):
        return None
    trace_id, span_id = int(found[1], 16), int(found[2], 16)
    if not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, bool(int(found[3], 16) & 1))
