"""Traces of requests and jobs. Off unless the setting `tracing` is on: then nothing of OpenTelemetry is imported.

Other modules use only this one. A trace context is passed on as text in the format of the header `traceparent`. Spans
carry names of the code, ids, counts and outcomes: never bodies, keys, addresses, names or values of statements.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tonne.platform.process.telemetry.spans import NO_SPAN, Attributes, Span, SpanKind
from tonne.platform.settings.settings import Settings, SettingsError

if TYPE_CHECKING:
    from tonne.platform.process.telemetry.tracing_sdk import SdkTracer

HEADER = "traceparent"
_NONE: Attributes = {}
_tracer: "SdkTracer | None" = None


def require_packages(settings: Settings) -> None:
    """Raises SettingsError if tracing is on and its packages are missing."""
    if settings.tracing and not _is_installed():
        raise SettingsError(
            "TONNE_TRACING is on, but the packages for it are not installed. Install Tonne with the extra otel "
            "(`pip install 'tonne[otel]'`), or turn tracing off."
        )


def _is_installed() -> bool:
    try:
        return all(find_spec(name) for name in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"))
    except ModuleNotFoundError:
        return False


def start(settings: Settings, process: str) -> None:
    """Call it in the process itself, not before a fork: spans are exported by a thread."""
    global _tracer  # noqa: PLW0603 - like the configuration of the log, it belongs to the whole process
    require_packages(settings)
    if settings.tracing:
        from tonne.platform.process.telemetry.tracing_sdk import SdkTracer  # noqa: PLC0415 - the packages are optional

        _tracer = SdkTracer(process)


def stop(within_s: float = 3.0) -> None:
    """Export what is left. Blocks for at most this time."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer is not None:
        tracer.stop(within_s)


def is_on() -> bool:
    return _tracer is not None


def span(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes = _NONE,
    *,
    parent: str | None = None,
    links: Sequence[str] = (),
) -> AbstractContextManager[Span]:
    """A span around a block. With `parent` it continues that trace, otherwise that of the current span."""
    return NO_SPAN if _tracer is None else _tracer.span(name, kind, attributes, parent, links)


def job_span(job: str) -> AbstractContextManager[Span]:
    """The root span of a run of a job. If the block sets `IDLE`, the run is left out with all its spans."""
    return NO_SPAN if _tracer is None else _tracer.job_span(job)


def record(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes = _NONE,
    *,
    start_ns: int,
    error: str | None = None,
    parent: str | None = None,
    links: Sequence[str] = (),
) -> None:
    """A span that ends now, and began at that time since 1970."""
    if _tracer is not None:
        _tracer.record(name, kind, attributes, start_ns=start_ns, error=error, parent=parent, links=links)


def attached(context: str | None) -> AbstractContextManager[object]:
    """Run a block as part of another trace, without a span of its own."""
    return NO_SPAN if _tracer is None or context is None else _tracer.attached(context)


def current() -> Span:
    return NO_SPAN if _tracer is None else _tracer.current()


def sampled_context() -> str | None:
    """The current trace context, to store it for another process. None if the trace is not exported anyway."""
    return _tracer.current().context if _tracer is not None and _tracer.is_sampled() else None


def outgoing_headers() -> dict[str, str]:
    """Headers that let a receiver continue the current trace."""
    context = None if _tracer is None else _tracer.current().context
    return {} if context is None else {HEADER: context}


def log_fields() -> Mapping[str, str]:
    """The ids of the current trace and span, for log lines."""
    return {} if _tracer is None else _tracer.log_fields()
