"""What a tracer and its spans can do. `tracing.py` explains the rest."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol, Self

Attributes = Mapping[str, str | int | float | bool]


class SpanKind(StrEnum):
    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"
    PRODUCER = "producer"


class Span(Protocol):
    def set(self, name: str, value: str | float | bool) -> None: ...

    def rename(self, name: str) -> None: ...

    def fail(self, error: str) -> None:
        """`error` is a fixed word or the name of a class, never a message: messages quote data."""

    def link(self, context: str | None) -> None: ...

    @property
    def context(self) -> str | None: ...


class Tracer(Protocol):
    def span(
        self, name: str, kind: SpanKind, attributes: Attributes, parent: str | None, links: Sequence[str]
    ) -> AbstractContextManager[Span]: ...

    def job_span(self, job: str) -> "AbstractContextManager[JobSpan]": ...

    def record(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        *,
        start_ns: int,
        error: str | None,
        parent: str | None,
        links: Sequence[str],
    ) -> None: ...

    def attached(self, context: str) -> AbstractContextManager[None]: ...

    def current(self) -> Span: ...

    def is_sampled(self) -> bool: ...

    def log_fields(self) -> Mapping[str, str]: ...

    def stop(self, within_s: float) -> None: ...


class JobSpan(Protocol):
    idle: bool


class _NoSpan:
    """What `span` returns without tracing."""

    context = None
    idle = False

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
