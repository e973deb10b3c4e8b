"""Tracing within the process of a test, with the finished spans in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.tracing_sdk import SdkTracer


@contextmanager
def exporting_spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(tracing, "_tracer", SdkTracer("test", SimpleSpanProcessor(exporter)))
    yield exporter
    tracing.stop()
