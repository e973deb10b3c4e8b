"""Traces with the OpenTelemetry SDK, exported by OTLP over HTTP. Imported only if tracing is on.

Where spans are sent, which traces are sampled and the limits of the export are set with the standard environment
variables of OpenTelemetry (`OTEL_…`), which the SDK reads itself.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Span as RunningSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tonne import __version__
from tonne.platform.process.telemetry.spans import IDLE, Attributes, SpanKind

JOB = "tonne.job"
_PROPAGATOR = TraceContextTextMapPropagator()
# Traces of idle runs whose last spans may still end.
_REMEMBERED = 1000
# Spans of one run that are held back until it ends.
_MAX_HELD = 2000


class SdkTracer:
    def __init__(self, process: str, processor: SpanProcessor | None = None) -> None:
        self._processor = IdleRunFilter(processor or BatchSpanProcessor(OTLPSpanExporter()))
        # Not registered as the global provider: libraries with instrumentation of their own stay silent.
        self._provider = TracerProvider(resource=_resource(process), shutdown_on_exit=False)
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("tonne", __version__)

    def span(
        self, name: str, kind: SpanKind, attributes: Attributes, parent: str | None, links: Sequence[str]
    ) -> AbstractContextManager["SdkSpan"]:
        started = self._tracer.start_span(
            name, _context(parent), kind=trace.SpanKind[kind.name], attributes=attributes, links=_links(links)
        )
        return _within(started)

    def job_span(self, job: str) -> AbstractContextManager["SdkSpan"]:
        # A context of its own: a run belongs to no request.
        return _within(self._tracer.start_span(f"job {job}", contexts.Context(), attributes={JOB: job}))

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
    ) -> None:
        context = _context(parent)
        if not trace.get_current_span(context).get_span_context().is_valid:
            # A statement outside of requests and jobs, such as a read of settings: a trace of one span says nothing.
            return
        started = self._tracer.start_span(
            name,
            context,
            kind=trace.SpanKind[kind.name],
            attributes=attributes,
            links=_links(links),
            start_time=start_ns,
        )
        if error is not None:
            SdkSpan(started).fail(error)
        started.end()

    def attached(self, context: str) -> AbstractContextManager[object]:
        continued = trace.get_current_span(_context(context))
        return trace.use_span(continued, record_exception=False, set_status_on_exception=False)

    def current(self) -> "SdkSpan":
        return SdkSpan(trace.get_current_span())

    def is_sampled(self) -> bool:
        return trace.get_current_span().get_span_context().trace_flags.sampled

    def log_fields(self) -> Mapping[str, str]:
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return {}
        return {"trace_id": trace.format_trace_id(found.trace_id), "span_id": trace.format_span_id(found.span_id)}

    def stop(self, within_s: float) -> None:
        # In a thread: without a collector, the SDK would wait for half a minute.
        stopping = threading.Thread(target=self._provider.shutdown, daemon=True)
        stopping.start()
        stopping.join(within_s)


class SdkSpan:
    __slots__ = ("_span",)

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, name: str, value: str | float | bool) -> None:
        self._span.set_attribute(name, value)

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def fail(self, error: str) -> None:
        self._span.set_attribute("error.type", error)
        self._span.set_status(StatusCode.ERROR)

    def link(self, context: str | None) -> None:
        for link in _links([] if context is None else [context]):
            self._span.add_link(link.context)

    @property
    def context(self) -> str | None:
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers, trace.set_span_in_context(self._span))
        return headers.get("traceparent")


@contextmanager
def _within(started: trace.Span) -> Iterator[SdkSpan]:
    with trace.use_span(started, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        span = SdkSpan(started)
        try:
            yield span
        except BaseException as error:
            # Not `record_exception`: the message of an exception may quote data of clients.
            span.fail(type(error).__qualname__)
            raise


class IdleRunFilter(SpanProcessor):
    """Holds the spans of a job's run back until it ends, and drops them if nothing was due.

    Every job looks for work at least once a second: the traces of idle runs would be nearly all that is exported.
    """

    def __init__(self, inner: SpanProcessor) -> None:
        self._inner = inner
        self._held: dict[int, list[ReadableSpan]] = {}
        self._dropped: set[int] = set()
        self._drop_order: deque[int] = deque()

    def on_start(self, span: RunningSpan, parent_context: contexts.Context | None = None) -> None:
        if span.parent is None and span.attributes is not None and JOB in span.attributes:
            self._held[span.get_span_context().trace_id] = []
        self._inner.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        trace_id = 0 if span.context is None else span.context.trace_id
        if trace_id in self._dropped:
            return
        held = self._held.get(trace_id)
        if held is None:
            self._inner.on_end(span)
            return
        held.append(span)
        if span.parent is None:
            del self._held[trace_id]
            if span.attributes is not None and IDLE in span.attributes:
                self._drop(trace_id)
            else:
                self._release(held)
        elif len(held) >= _MAX_HELD:
            self._held[trace_id] = []
            self._release(held)

    def _release(self, held: Sequence[ReadableSpan]) -> None:
        for span in held:
            self._inner.on_end(span)

    def _drop(self, trace_id: int) -> None:
        self._dropped.add(trace_id)
        self._drop_order.append(trace_id)
        if len(self._drop_order) > _REMEMBERED:
            self._dropped.discard(self._drop_order.popleft())

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


def _resource(process: str) -> Resource:
    """`OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come first."""
    found = Resource.create({"service.version": __version__, "tonne.process": process})
    if str(found.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        return found.merge(Resource({SERVICE_NAME: f"tonne-{process}"}))
    return found


def _context(parent: str | None) -> contexts.Context | None:
    """None means the current context, also for a malformed parent."""
    found = None if parent is None else read_context(parent)
    if found is None or not found.is_valid:
        return None
    return trace.set_span_in_context(trace.NonRecordingSpan(found), contexts.Context())


def _links(given: Sequence[str]) -> list[Link]:
    return [Link(found) for found in map(read_context, given) if found.is_valid]


def read_context(text: str) -> SpanContext:
    """The context in the format of `traceparent`. It is not valid if the text is malformed."""
    return trace.get_current_span(_PROPAGATOR.extract({"traceparent": text})).get_span_context()
