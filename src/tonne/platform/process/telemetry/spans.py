"""What a span can do, with and without tracing. `tracing.py` explains the rest."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, Self

Attributes = Mapping[str, str | int | float | bool]
# Set on the span of a job's run in which nothing was due.
IDLE = "tonne.idle"


class SpanKind(StrEnum):
    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"
    PRODUCER = "producer"


class Span(Protocol):
    """`context` is the text that lets another process continue the trace, as in the header `traceparent`."""

    def set(self, name: str, value: str | float | bool) -> None: ...

    def rename(self, name: str) -> None: ...

    def fail(self, error: str) -> None:
        """`error` is a fixed word or the name of a class, never a message: messages quote data."""

    def link(self, context: str | None) -> None: ...

    @property
    def context(self) -> str | None: ...


class _NoSpan:
    """The span and its context manager without tracing."""

    context = None

    def set(self, name: str, value: str | float | bool) -> None:
        pass

    def rename(self, name: str) -> None:
        pass

    def fail(self, error: str) -> None:
        pass

    def link(self, context: str | None) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


NO_SPAN = _NoSpan()
