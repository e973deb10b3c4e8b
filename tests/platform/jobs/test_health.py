"""The health checks of a worker, with jobs made for the tests and in a real process."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.http.health import NO_DATABASE
from tonne.platform.jobs.health import WorkerHealth
from tonne.platform.jobs.loop import Job, run_jobs
from tonne.platform.jobs.metrics import JobMetrics
from tonne.platform.settings.settings import Settings


@pytest.fixture
async def worker(populated_db: Database, settings: Settings) -> AsyncIterator[Services]:
    services = Services(populated_db, settings, process="worker")
    yield services
    await services.health.close()


def _health(worker: Services, jobs: JobMetrics, stop: asyncio.Event, stuck_after_s: float) -> WorkerHealth:
    return WorkerHealth(worker.health, jobs, stop, stuck_after_s)


async def test_operations_12_a_worker_with_a_stuck_job_is_not_live(worker: Services) -> None:
    stop, begun, answered, jobs = asyncio.Event(), asyncio.Event(), asyncio.Event(), JobMetrics()

    async def wait_for_an_answer() -> bool:
        begun.set()
        await answered.wait()
        return False

    running = asyncio.create_task(run_jobs([Job("ask", wait_for_an_answer)], stop, 60.0, jobs))
    await begun.wait()
    assert _health(worker, jobs, stop, 60.0).why_not_live() == []
    stuck = _health(worker, jobs, stop, 0.0)
    assert stuck.why_not_live() == ["the job ask has been running for more than 0 s"]
    assert await stuck.why_not_ready() == ["the job ask has been running for more than 0 s"]
    answered.set()
    stop.set()
    await running
    assert stuck.why_not_live() == []


async def test_a_job_that_fails_is_not_stuck(worker: Services) -> None:
    stop, jobs = asyncio.Event(), JobMetrics()

    async def fail() -> bool:
        stop.set()
        raise ValueError

    await run_jobs([Job("fail", fail)], stop, 0.001, jobs)
    assert _health(worker, jobs, stop, 0.0).why_not_live() == []


async def test_a_worker_that_stops_is_live_and_not_ready(worker: Services) -> None:
    stop = asyncio.Event()
    health = _health(worker, JobMetrics(), stop, 60.0)
    assert await health.why_not_ready() == []
    stop.set()
    assert (health.why_not_live(), await health.why_not_ready()) == ([], ["the process is about to stop"])


async def test_without_its_database_a_worker_is_live_and_not_ready(worker: Services) -> None:
    """A restart would not bring the database back."""
    health = _health(worker, JobMetrics(), asyncio.Event(), 60.0)
    async with worker.database.connection() as connection:
        await connection.execute("DELETE FROM schema_migrations")
    assert (health.why_not_live(), await health.why_not_ready()) == ([], [NO_DATABASE])
