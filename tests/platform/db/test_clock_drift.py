"""The clocks of process and database are compared; a slow response and a busy stream are no drift."""

import asyncio
import time
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.support.samples import parse_samples, total
from tests.support.world import World
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.db.server.clock_drift import MAX_DRIFT_S, WAITING, ClockDrift, measure_drift
from tonne.platform.events.log import NewEvent, append
from tonne.platform.process.telemetry.metrics_text import render
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
async def test_operations_18_the_drift_has_a_direction(db: Database, ahead_s: float) -> None:
    async with db.connection() as connection:
        drift_s = await measure_drift(connection, lambda: time.time() + ahead_s)
    # On one machine the clocks agree. Part of the response time is not counted.
    assert abs(drift_s - ahead_s) < 5


async def test_operations_18_a_slow_response_is_no_drift(db: Database) -> None:
    times = iter([time.time() - 3600, time.time() + 3600])
    async with db.connection() as connection:
        assert await measure_drift(connection, lambda: next(times)) == 0


def _shown(drift: ClockDrift) -> float:
    return total(
        parse_samples(render(metric.snapshot() for metric in drift.metrics).decode()), "tonne_clock_drift_seconds"
    )


async def test_operations_18_a_drift_is_reported_once_and_shown_as_a_metric(db: Database) -> None:
    ahead_s = [0.0]
    drift = ClockDrift(db, lambda: time.time() + ahead_s[0])
    with capture_logs() as logs:
        await drift.measure()
        assert _shown(drift) <= MAX_DRIFT_S
        for ahead_s[0] in (-60.0, -61.0, 0.0, 60.0):
            await drift.measure()
    assert [entry["event"] for entry in logs] == ["clock_drift", "clock_drift"]
    assert [entry["seconds_ahead"] > 0 for entry in logs] == [False, True]
    assert 55 < _shown(drift) <= 60


async def test_operations_18_watching_survives_an_outage(db: Database) -> None:
    measured = asyncio.Event()

    def wall_clock() -> float:
        measured.set()
        return time.time()

    closed = Database("postgresql://nobody@127.0.0.1:1/none", Settings())
    watching = [asyncio.create_task(ClockDrift(each, wall_clock).watch()) for each in (closed, db)]
    await asyncio.wait_for(measured.wait(), 10)
    assert not any(task.done() for task in watching)
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)


async def test_operations_18_a_stream_ahead_of_the_clock_is_no_drift(services: Services, world: World) -> None:
    """`sequence` rises by at least 1 ms per event, so a busy stream runs ahead."""
    scope = world.ours_test.scope
    events = [NewEvent("order.received", "ord_1", b"{}")]
    async with services.database.transaction() as tx:
        await append(tx, scope, events, utc_now() + timedelta(hours=1))
        await append(tx, scope, events * 100, utc_now())
        ahead = await tx.fetchval("SELECT max(last_sequence) - now() > interval '59 min' FROM event_streams")
        assert ahead
        found = await find_waiting(tx, Settings(), utc_now())
    assert WAITING[0].name not in found


@pytest.mark.parametrize(("ahead", "words"), [(60, "s ahead of the database"), (-60, "s behind the database")])
async def test_operations_18_the_doctor_warns_of_a_wrong_clock(db: Database, ahead: int, words: str) -> None:
    async with db.connection() as connection:
        now = utc_now() + timedelta(seconds=ahead)
        [row] = await connection.fetch(WAITING[0].sql, now)
        assert row["where"].endswith(words)
        assert await connection.fetch(WAITING[0].sql, *WAITING[0].parameters(Settings(), now)) == []
