"""The traces of events: stored with them while tracing is on, and deleted after a week."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link

from tests.support.spans import exporting_spans
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.events.trace_store import KEEP, PRUNE_TRACES, PruneTraces
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.spans import IDLE
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.model import OrderKey

ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    with exporting_spans(monkeypatch) as exporter:
        yield exporter


async def _place(services: Services, world: World, count: int) -> None:
    """Several orders at the same time, as requests of their own."""
    transport = httpx.ASGITransport(build_app(services))
    headers = {"Authorization": f"Bearer {world.ours_test.key}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test", headers=headers) as client:
        answers = await asyncio.gather(*(client.post("/v1/orders/by-mass", json=ONE_TONNE) for _ in range(count)))
    assert {answer.status_code for answer in answers} == {201}


async def _traces(database: Database) -> list[tuple[str, str]]:
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT event.subject_id, event_traces.trace FROM event_traces JOIN events event "
            "USING (organisation_id, mode, position) ORDER BY position"
        )
    return [(row["subject_id"], row["trace"]) for row in rows]


def _context(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def _linked(link: Link) -> str:
    return f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}-{link.context.trace_flags:02x}"


def _requests(exported: InMemorySpanExporter) -> list[ReadableSpan]:
    return [span for span in exported.get_finished_spans() if span.name == "POST /v1/orders/by-mass"]


async def test_orders_of_one_batch_keep_the_traces_of_their_requests(
    exported: InMemorySpanExporter, populated_db: Database, settings: Settings, world: World
) -> None:
    await _place(Services(populated_db, settings), world, 12)
    traces = await _traces(populated_db)
    assert len(traces) == 24
    assert len(set(traces)) == 12
    assert {trace for _, trace in traces} == {_context(span) for span in _requests(exported)}
    batches = [span for span in exported.get_finished_spans() if span.name == "group commit"]
    assert batches
    there = {(_context(batch), _linked(link)) for batch in batches for link in batch.links}
    back = {(_linked(link), _context(span)) for span in _requests(exported) for link in span.links}
    assert there == back
    # How many share a batch depends on the time that a commit takes. Those that find no other waiting are placed alone.
    assert len(there) >= 2


async def test_reads_that_share_a_statement_are_linked_with_it(
    exported: InMemorySpanExporter, populated_db: Database, settings: Settings
) -> None:
    reads = Services(populated_db, settings).orders.by_id

    async def read(number: int) -> None:
        with tracing.span("request"):
            await reads.find(OrderKey("acc_unknown", str(number)))

    await read(0)
    assert "grouped read" not in {span.name for span in exported.get_finished_spans()}
    await asyncio.gather(read(1), read(2))
    spans = exported.get_finished_spans()
    [group] = [span for span in spans if span.name == "grouped read"]
    requests = [span for span in spans if span.name == "request"][1:]
    assert {_linked(link) for link in group.links} == {_context(span) for span in requests}
    assert [[_linked(link) for link in span.links] for span in requests] == [[_context(group)]] * 2


async def test_without_tracing_nothing_is_stored(populated_db: Database, settings: Settings, world: World) -> None:
    await _place(Services(populated_db, settings), world, 3)
    assert await _traces(populated_db) == []


async def test_traces_are_deleted_after_a_week(
    exported: InMemorySpanExporter, populated_db: Database, settings: Settings, world: World
) -> None:
    await _place(Services(populated_db, settings), world, 1)
    assert len(_requests(exported)) == 1
    prune = PruneTraces(populated_db)
    assert not await prune.run_once()
    assert len(await _traces(populated_db)) == 2
    async with populated_db.connection() as connection:
        await connection.execute(
            "UPDATE event_traces SET stored_at = now() - $1::interval WHERE position = 1", KEEP + timedelta(seconds=1)
        )
    assert not await prune.run_once()
    assert len(await _traces(populated_db)) == 1


async def test_old_traces_are_found_by_their_index(db: Database) -> None:
    """It ran into the limit of a statement on two hundred thousand traces."""
    async with db.transaction() as tx:
        # Reading all rows is made expensive, as it is with many.
        await tx.execute("SET LOCAL enable_seqscan = off")
        plan = await tx.fetch(f"EXPLAIN {PRUNE_TRACES}", KEEP, 1)
    assert "Index Cond: (stored_at < " in "\n".join(line[0] for line in plan)


async def test_a_failing_statement_is_exported_without_its_message(
    exported: InMemorySpanExporter, populated_db: Database
) -> None:
    """Messages of PostgreSQL quote values."""
    with tracing.span("test"):
        connection = await populated_db.connect()
        with pytest.raises(Exception, match="canary"):
            await connection.execute("SELECT 'canary'::int")
        await connection.close()
        # asyncpg reports a statement in the next turn of the loop.
        await asyncio.sleep(0)
    (failed,) = [span for span in exported.get_finished_spans() if span.name == "SELECT"]
    assert failed.attributes == {
        "db.system.name": "postgresql",
        "db.operation.name": "SELECT",
        "db.response.status_code": "22P02",
        "error.type": "InvalidTextRepresentationError",
    }
    assert (failed.events, failed.status.description) == ((), None)


def test_an_exception_is_exported_by_its_type_only(exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="canary"), tracing.span("test"):
        raise ValueError("canary")
    (span,) = exported.get_finished_spans()
    assert (span.attributes, span.events, span.status.description) == ({"error.type": "ValueError"}, (), None)


def test_the_spans_of_an_idle_run_are_dropped_also_if_they_end_late(exported: InMemorySpanExporter) -> None:
    with tracing.job_span("idle") as run:
        context = tracing.current().context
        with tracing.span("statement"):
            pass
        run.set(IDLE, True)
    with tracing.span("late", parent=context):
        pass
    with tracing.job_span("busy"), tracing.span("statement of busy"):
        pass
    assert [span.name for span in exported.get_finished_spans()] == ["statement of busy", "job busy"]
