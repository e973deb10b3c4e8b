"""A collector of traces: OTLP over HTTP, decoded with the definitions of the protocol."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.command import wait_until
from tests.support.processes import HOST


@dataclass(frozen=True, slots=True)
class CollectedSpan:
    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    links: list[tuple[str, str]]
    attributes: dict[str, Any]
    failed: bool
    start_ns: int
    end_ns: int


class Collector:
    def __init__(self, port: int) -> None:
        self.port = port
        self._spans: list[CollectedSpan] = []
        self.raw = b""

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a process that exports to this collector, at once."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{HOST}:{self.port}", "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def spans(self) -> list[CollectedSpan]:
        return list(self._spans)

    def of_trace(self, trace_id: str) -> list[CollectedSpan]:
        return sorted((span for span in self.spans() if span.trace_id == trace_id), key=lambda span: span.start_ns)

    def wait_for(self, condition: Callable[[CollectedSpan], bool], what: str) -> CollectedSpan:
        wait_until(lambda: any(map(condition, self.spans())), 30, what)
        return next(filter(condition, self.spans()))

    def receive(self, body: bytes) -> None:
        self.raw += body
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self._spans += [_span(named["service.name"], span) for span in scope.spans]


def _span(service: str, span: Any) -> CollectedSpan:
    return CollectedSpan(
        service,
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes},
        span.status.code == 2,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector(0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf":
                collector.receive(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((HOST, 0), Handler)
    collector.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield collector
    server.shutdown()
    server.server_close()
    thread.join()
