"""Traces across processes, as a collector gets them: from a request to the deliveries of its events."""

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import POPULATED, Server
from tests.support.otlp_receiver import CollectedSpan, Collector, collecting
from tests.support.processes import HOST, Process, environment, free_port
from tests.support.receivers import Receiver, after
from tests.support.tls import Authority
from tests.support.world import World

ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}
CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"
FROM_CALLER = {"traceparent": f"00-{CALLER}-00f067aa0ba902b7-01"}
Start = Callable[..., int]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        for name, value in collector.variables.items():
            monkeypatch.setenv(name, value)
        yield collector


@pytest.fixture
def start(server: Server, authority: Authority, tmp_path: Path) -> Iterator[Start]:
    """Starts a command with tracing; returns its port. All have the same database."""
    url = server.url(asyncio.run(server.clone_of(POPULATED)))
    secret_key = secrets.token_urlsafe(32)
    started: list[Process] = []

    def start(command: str, **settings: object) -> int:
        port, metrics_port = free_port(), free_port()
        common = {"port": port, "metrics_port": metrics_port, "data_dir": tmp_path / "data", "database_url": url}
        common |= {"secret_key": secret_key, "webhook_allow_private": "127.0.0.0/8"}
        common |= {"webhook_ca_file": authority.ca_file, "tracing": "true", "worker_poll_s": 0.05}
        process = Process("tonne", command, settings=common | settings, log=tmp_path / f"{command}.log")
        started.append(process)
        process.wait_until_ready(metrics_port)
        return port

    yield start
    for process in started:
        process.stop()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {world.ours_test.key}"}
    async with httpx.AsyncClient(headers=headers, timeout=30) as client:
        yield client


async def _register(client: httpx.AsyncClient, base: str, receiver: Receiver) -> None:
    answer = await client.post(f"{base}/v1/webhooks", json={"url": receiver.url})
    assert answer.status_code == 201, answer.text


def _named(spans: list[CollectedSpan], name: str) -> list[CollectedSpan]:
    return [span for span in spans if span.name == name]


async def test_the_trace_of_an_order_goes_on_until_its_events_are_delivered(
    start: Start, collector: Collector, receiver: Receiver, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    """Request and statements in the api process, delivery in the worker, and the header that a receiver gets."""
    base = f"http://{HOST}:{start('api', tracing_trusted_callers='127.0.0.0/8')}"
    await _register(client, base, receiver)
    body = ONE_TONNE | {"metadata": {"mail": "canary-7d21@example.com"}, "idempotency_key": "canary-7d21"}
    answer = await client.post(f"{base}/v1/orders/by-mass", json=body, headers=FROM_CALLER)
    assert answer.status_code == 201
    # Only now, so that both events are delivered in one request.
    await asyncio.to_thread(start, "worker")
    await receiver.count(1)
    delivery = receiver.deliveries[0]
    assert [event["event_type"] for event in delivery.events][:2] == ["order.received", "order.placed"]
    _, trace_id, span_id, flags = delivery.headers["traceparent"].split("-")
    assert (trace_id, flags) == (CALLER, "01")

    def is_delivery(span: CollectedSpan) -> bool:
        return span.span_id == span_id

    sent = await asyncio.to_thread(collector.wait_for, is_delivery, "the delivery is exported")
    spans = collector.of_trace(CALLER)
    (request,) = _named(spans, "POST /v1/orders/by-mass")
    assert (request.service, request.parent_id, request.kind) == ("tonne-api", "00f067aa0ba902b7", 2)
    assert request.attributes["http.response.status_code"] == 201
    assert request.attributes["tonne.request_id"] == answer.headers["x-request-id"]
    statements = [span for span in spans if span.attributes.get("db.system.name") == "postgresql"]
    assert {"platform.events.log.APPEND", "COMMIT"} <= {span.name for span in statements}
    assert {span.parent_id for span in statements if span.name == "platform.events.log.APPEND"} == {request.span_id}
    assert all(span.start_ns <= span.end_ns for span in spans)
    assert (sent.service, sent.name, sent.parent_id, sent.kind) == (
        *("tonne-worker", "deliver webhook", request.span_id, 3),
    )
    assert sent.attributes["http.response.status_code"] == 200
    # Nothing that a client sends is exported, and no statement's text.
    assert b"canary" not in collector.raw
    assert b"INSERT INTO" not in collector.raw
    lines = [json.loads(line) for line in (tmp_path / "api.log").read_text().splitlines()]
    assert [line["request_id"] for line in lines if line.get("trace_id") == CALLER] == [answer.headers["x-request-id"]]


async def test_several_traces_in_one_request_are_linked_with_it(
    start: Start, collector: Collector, receiver: Receiver, client: httpx.AsyncClient
) -> None:
    """The first delivery is held until all orders are placed, so that the next request has the events of several."""
    base = f"http://{HOST}:{start('api')}"
    await _register(client, base, receiver)
    release = asyncio.Event()
    receiver.next(after(release))
    await client.post(f"{base}/v1/orders/by-mass", json=ONE_TONNE)
    await asyncio.to_thread(start, "worker")
    await receiver.count(1)
    placed = await asyncio.gather(*(client.post(f"{base}/v1/orders/by-mass", json=ONE_TONNE) for _ in range(5)))
    ids = {answer.headers["x-request-id"] for answer in placed}
    release.set()
    await receiver.arrived(lambda: len({event["data"]["order"]["id"] for event in receiver.events}) == 6)

    def is_batch(span: CollectedSpan) -> bool:
        """Jobs of the worker append events too, so a delivery may be linked with further traces."""
        requests = {each.trace_id for each in collector.spans() if each.attributes.get("tonne.request_id") in ids}
        return span.name == "deliver webhook" and len(requests & {trace_id for trace_id, _ in span.links}) > 1

    batch = await asyncio.to_thread(collector.wait_for, is_batch, "a delivery of several requests is exported")
    for trace_id, span_id in batch.links:

        def is_in_trace(span: CollectedSpan, trace_id: str = trace_id, parent: str = span_id) -> bool:
            return (span.name, span.trace_id, span.parent_id) == ("deliver webhook (batch)", trace_id, parent)

        seen = await asyncio.to_thread(collector.wait_for, is_in_trace, "every trace shows its delivery")
        assert seen.links == [(batch.trace_id, batch.span_id)]


async def test_a_stranger_cannot_choose_the_trace_or_have_it_exported(
    start: Start, collector: Collector, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"http://{HOST}:{start('api')}"
    linked = await client.get(f"{base}/v1/orders", headers=FROM_CALLER)
    malformed = await client.get(f"{base}/v1/orders", headers={"traceparent": "00-xyz-1-01"})

    def of(answer: httpx.Response) -> Callable[[CollectedSpan], bool]:
        return lambda span: span.attributes.get("tonne.request_id") == answer.headers["x-request-id"]

    span = await asyncio.to_thread(collector.wait_for, of(linked), "the request is exported")
    assert span.trace_id != CALLER
    assert (span.parent_id, span.links) == ("", [(CALLER, "00f067aa0ba902b7")])
    span = await asyncio.to_thread(collector.wait_for, of(malformed), "the other one, too")
    assert (span.parent_id, span.links) == ("", [])
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    sampled_out = f"http://{HOST}:{start('api')}"
    hidden = await client.get(f"{sampled_out}/v1/orders", headers=FROM_CALLER)
    last = await client.get(f"{base}/v1/orders")
    await asyncio.to_thread(collector.wait_for, of(last), "a later request of the first server")
    assert not any(map(of(hidden), collector.spans()))


async def test_runs_of_jobs_are_exported_only_if_something_was_due(
    start: Start, collector: Collector, client: httpx.AsyncClient
) -> None:
    base = f"http://{HOST}:{start('api')}"
    await asyncio.to_thread(start, "worker")
    assert (await client.post(f"{base}/v1/orders/by-mass", json=ONE_TONNE)).status_code == 201

    def is_run(span: CollectedSpan) -> bool:
        return span.name == "job issue_invoices"

    run = await asyncio.to_thread(collector.wait_for, is_run, "the order is invoiced")
    assert run.parent_id == ""
    names = {span.name for span in collector.spans() if span.service == "tonne-worker"}
    assert "job close_units" not in names
    roots = {span.trace_id for span in collector.spans() if span.name.startswith("job ")}
    orphans = [span for span in collector.spans() if span.service == "tonne-worker" and span.trace_id not in roots]
    assert [span.name for span in orphans] == []


async def test_a_collector_that_is_down_harms_nothing(
    start: Start, client: httpx.AsyncClient, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{HOST}:{free_port()}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    base = f"http://{HOST}:{start('api', sentry_dsn=f'http://key@{HOST}:{free_port()}/1')}"
    await _register(client, base, receiver)
    await asyncio.to_thread(start, "worker")
    for _ in range(3):
        assert (await client.post(f"{base}/v1/orders/by-mass", json=ONE_TONNE)).status_code == 201
    await receiver.arrived(lambda: len(receiver.events) >= 6)
    lines = [json.loads(line) for line in (tmp_path / "api.log").read_text().splitlines()]
    assert {line["level"] for line in lines if line.get("source", "").startswith("opentelemetry")} <= {
        "warning",
        "error",
    }
    assert [line for line in lines if line["event"] in {"request_failed", "request_crashed"}] == []


def test_without_tracing_nothing_of_it_is_imported(server: Server, tmp_path: Path) -> None:
    url = server.url(asyncio.run(server.clone_of(POPULATED)))
    script = (
        "import sys, tonne.apps.cli.main, tonne.apps.wiring.app; tonne.apps.wiring.app.create_app(); "
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'sentry_sdk', 'google.protobuf'))])"
    )
    settings = {"database_url": url, "data_dir": tmp_path, "secret_key": secrets.token_urlsafe(32)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(settings), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
