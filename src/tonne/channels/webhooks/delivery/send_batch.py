"""Sign a batch and post it to its receiver."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from typing import NamedTuple

import structlog

from tonne.channels.webhooks.delivery.outcomes import Delivered, SendOutcome
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.channels.webhooks.sending.sender import Sender
from tonne.channels.webhooks.sending.signing import open_secrets, signed_headers
from tonne.platform.db.database import Database
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.events.trace_store import read_traces
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.spans import Span, SpanKind
from tonne.platform.settings.settings import Settings

# Spans of deliveries: they continue the traces of the events that are sent.

_SPAN_NAME = "deliver webhook"


@asynccontextmanager
async def delivery_span(database: Database, lease: Lease, batch: EventBatch) -> AsyncIterator[Span]:
    """The span of one request to a receiver.

    If all its events belong to one trace, the request is part of that trace. Otherwise it is part of the worker's and
    links to theirs, and each of theirs gets a span that links back, so that every trace shows its delivery.
    """
    traces = await _read_traces(database, lease, batch)
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
    with tracing.span(_SPAN_NAME, SpanKind.CLIENT, attributes, parent=parent, links=links) as span:
        yield span
    if span.context is not None:
        for trace in links:
            tracing.record(
                f"{_SPAN_NAME} (batch)",
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


async def _read_traces(database: Database, lease: Lease, batch: EventBatch) -> Sequence[str]:
    """Empty if the database does not respond: a delivery must not fail because of its trace."""
    try:
        return await database.run(read_traces, lease.organisation_id, lease.mode, batch.positions)
    except DATABASE_ERRORS:
        return []


_CACHED_SECRETS = 1000
# Hashing a body of this size takes longer than handing it to a thread. Threads hash side by side with the event loop.
SIGN_IN_THREAD_BYTES = 20_000
_SIGNING_THREADS = 2

_log = structlog.get_logger()


class SignedRequest(NamedTuple):
    body: bytes
    headers: dict[str, str]


class BatchSender:
    def __init__(
        self,
        database: Database,
        make_sender: Callable[[], Sender],
        box: SecretBox,
        settings: Settings,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._make_sender = make_sender
        self._sender: Sender | None = None
        # A new secret is a new sealed value, so a cached one is never out of date.
        self._unseal = lru_cache(_CACHED_SECRETS)(box.open)
        self._brand = settings.brand
        self._wall_clock = wall_clock
        self._threads = ThreadPoolExecutor(_SIGNING_THREADS, "sign")

    async def sign(self, lease: Lease, batch: EventBatch) -> SignedRequest | None:
        """None if the secret of the webhook cannot be opened."""
        body = batch.body
        try:
            secrets = open_secrets(self._unseal, lease.id, lease.sealed_secret, lease.old_sealed_secrets)
        except SecretUnreadable as error:
            _log.error("webhook_secret_unreadable", webhook_id=lease.id, reason=str(error))
            return None
        sign = partial(
            signed_headers,
            self._brand,
            secrets,
            lease.organisation_id,
            body,
            timestamp=int(self._wall_clock()),
            message_id=batch.message_id if lease.standard_webhooks else None,
        )
        if len(body) < SIGN_IN_THREAD_BYTES:
            return SignedRequest(body, sign())
        return SignedRequest(body, await asyncio.get_running_loop().run_in_executor(self._threads, sign))

    async def post(self, lease: Lease, batch: EventBatch, request: SignedRequest) -> SendOutcome:
        if self._sender is None:
            self._sender = self._make_sender()
        if tracing.is_on():
            async with delivery_span(self._database, lease, batch) as span:
                outcome = await self._sender.post(lease.url, *request)
                describe_outcome(span, outcome)
        else:
            outcome = await self._sender.post(lease.url, *request)
        # Every attempt is in `webhook_attempts`. At info level, successes would be most of the log.
        log = _log.debug if isinstance(outcome, Delivered) else _log.info
        log(
            "delivery",
            webhook_id=lease.id,
            organisation_id=lease.organisation_id,
            first_position=batch.positions[0],
            events=len(batch.positions),
            status=outcome.status,
            error=outcome.error,
            ms=outcome.duration_ms,
        )
        return outcome

    async def close(self) -> None:
        if self._sender is not None:
            await self._sender.close()
            self._sender = None
        self._threads.shutdown(wait=False)
