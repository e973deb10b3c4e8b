"""Spans of deliveries: they continue the traces of the events that are sent."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tonne.channels.webhooks.delivery.outcomes import SendOutcome
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.db.database import Database
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.events.trace_store import read_traces
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.spans import Span, SpanKind

_NAME = "deliver webhook"


@asynccontextmanager
async def delivery_span(database: Database, lease: Lease, batch: EventBatch) -> AsyncIterator[Span]:
    """The span of one request to a receiver.

    If all its events belong to one trace, the request is part of that trace. Otherwise it is part of the worker's and
    links to theirs, and each of theirs gets a span that links back, so that every trace shows its delivery.
    """
    traces = await _read(database, lease, batch)
    attributes: dict[str, str | int] = {
        "tonne.webhook_id": lease.id,
        "tonne.organisation_id": lease.organisation_id,
        "tonne.first_position": batch.positions[0],
        "tonne.events": len(batch.positions),
        "tonne.failures": lease.failures,
    }
    started_ns = time.time_ns()
    parent = traces[0] if len(traces) == 1 else None
    links = [] if parent else traces
    with tracing.span(_NAME, SpanKind.CLIENT, attributes, parent=parent, links=links) as span:
        yield span
    if span.context is not None:
        for trace in links:
            tracing.record(
                f"{_NAME} (batch)",
                SpanKind.PRODUCER,
                {"tonne.webhook_id": lease.id},
                start_ns=started_ns,
                parent=trace,
                links=[span.context],
            )


def describe_outcome(span: Span, outcome: SendOutcome) -> None:
    if outcome.status is not None:
        span.set("http.response.status_code", outcome.status)
    if outcome.error is not None:
        span.fail(outcome.error)


async def _read(database: Database, lease: Lease, batch: EventBatch) -> Sequence[str]:
    """Empty if the database does not respond: a delivery must not fail because of its trace."""
    try:
        return await database.run(read_traces, lease.organisation_id, lease.mode, batch.positions)
    except DATABASE_ERRORS:
        return []
