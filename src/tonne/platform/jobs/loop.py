"""Runs the jobs of a worker. A job is a function that processes due rows and returns whether there were any.

When each job last ran is reported to the database, for the operator's page.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

import structlog
from msgspec import Struct, field

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import is_database_unavailable, log_outage, repeat
from tonne.platform.events.notification import Notification, WorkKind
from tonne.platform.jobs.metrics import JobMetrics
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.spans import IDLE
from tonne.platform.values.context import Clock, replace, utc_now

RunOnce = Callable[[], Awaitable[bool]]

_log = structlog.get_logger()
# Maximum back-off after repeated failures of a job.
MAX_PAUSE_S = 30.0
DATABASE_RETRY_S = 1.0
# A job that finds nothing in so many polls looks less often, up to so many times less. Notifications wake it, and a
# lost one delays work by no more than this. What it did may be due again soon, so it is not slow at once.
STEADY_POLLS = 30
SLOWEST_POLL = 4
# Bounds the exponent of the back-off: a large power of two does not fit a float.
_MAX_DOUBLINGS = 16


class Job(Struct, frozen=True):
    """`run_once` must leave nothing half done when it raises or is cancelled."""

    name: str
    run_once: RunOnce
    # Waits for the tasks that `run_once` has started.
    drain: Callable[[], Awaitable[None]] | None = None
    # The job runs when one of these became due, without waiting for its next poll.
    kinds: frozenset[WorkKind] = frozenset()
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    # It limits itself how often it looks, and looks at every poll otherwise.
    is_throttled: bool = False
    # Called before the job is woken, with what it is woken for.
    expect: Callable[[Notification], None] | None = None


def wake_jobs(jobs: Sequence[Job], notification: Notification) -> None:
    """Wake only the jobs that the notification concerns: an idle run costs as much as a delivery."""
    for job in jobs:
        if notification.concerns(job.kinds):
            if job.expect is not None:
                job.expect(notification)
            job.wake.set()


async def run_jobs(
    jobs: Sequence[Job],
    stop: asyncio.Event,
    poll_s: float,
    metrics: JobMetrics | None = None,
    is_held: Callable[[], bool] = lambda: False,
) -> None:
    """Run all jobs concurrently until `stop` is set, then finish the work in progress. While held, no job runs."""
    metrics = metrics or JobMetrics()
    jobs = [replace(job, run_once=_unless_held(job.run_once, is_held)) for job in jobs]
    stopping = asyncio.create_task(_wake_at_stop(jobs, stop))
    await asyncio.gather(*(_run(job, stop, poll_s, metrics) for job in jobs))
    stopping.cancel()
    await asyncio.gather(*(job.drain() for job in jobs if job.drain is not None))


def _unless_held(run_once: RunOnce, is_held: Callable[[], bool]) -> RunOnce:
    async def run() -> bool:
        return False if is_held() else await run_once()

    return run


async def _wake_at_stop(jobs: Sequence[Job], stop: asyncio.Event) -> None:
    """So that `_sleep` waits for one event, not for two: that would take tasks, which cost as much as an idle run."""
    await stop.wait()
    for job in jobs:
        job.wake.set()


async def _run(job: Job, stop: asyncio.Event, poll_s: float, metrics: JobMetrics) -> None:
    failures = polls = 0
    metrics.register(job.name)
    while not stop.is_set():
        job.wake.clear()
        metrics.begin(job.name)
        started = time.monotonic()
        try:
            with tracing.job_span(job.name) as span:
                worked = await job.run_once()
                if not worked:
                    span.set(IDLE, True)
        except Exception as error:  # noqa: BLE001 - a failure must end neither this job nor the others
            failures += 1
            is_outage = log_outage(error)
            metrics.fail(job.name, time.monotonic() - started, "unavailable" if is_outage else "failed")
            if not is_outage:
                _log.exception("job_failed", job=job.name, failures=failures)
            # Notifications do not end the back-off: with traffic, a failing job would run all the time.
            await _sleep(_back_off_s(error, failures, poll_s), stop)
        else:
            failures = 0
            metrics.succeed(job.name, worked=worked, seconds=time.monotonic() - started)
            if worked:
                polls = 0
                continue
            await _sleep(poll_s * min(1 + polls // STEADY_POLLS, SLOWEST_POLL), job.wake)
            polls = 0 if job.is_throttled else polls + 1


def _back_off_s(error: Exception, failures: int, poll_s: float) -> float:
    # Work resumes soon after the database is back, however long it was away.
    longest = DATABASE_RETRY_S if is_database_unavailable(error) else MAX_PAUSE_S
    return float(min(longest, poll_s * 2 ** min(failures, _MAX_DOUBLINGS)))


async def _sleep(seconds: float, event: asyncio.Event) -> None:
    """Return when the event is set, or after the time, with jitter: workers must not all poll at the same time."""
    jitter = random.uniform(0.8, 1.2)  # noqa: S311 - spreading load, not a secret
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds * jitter):
            await event.wait()


def throttled(run_once: RunOnce, every_s: float) -> RunOnce:
    """Run an idle job at most every `every_s` seconds, however often workers are notified."""
    next_run_at = 0.0

    async def run() -> bool:
        nonlocal next_run_at
        if time.monotonic() < next_run_at:
            return False
        worked = await run_once()
        next_run_at = 0.0 if worked else time.monotonic() + every_s
        return worked

    return run


REPORT_EVERY_S = 5.0
# Reports of workers that were killed are kept this long, so that the operator sees that one is missing.
KEPT = timedelta(days=1)


class JobReports:
    def __init__(self, database: Database, metrics: JobMetrics, clock: Clock = utc_now, worker: str = "") -> None:
        self._database = database
        self._metrics = metrics
        self._clock = clock
        self._started_at = clock()
        # A random part is not needed: a process id is used again only after the process has ended.
        self._worker = worker or f"{socket.gethostname()} {os.getpid()}"

    async def report(self) -> None:
        jobs = json.dumps(self._metrics.states())
        await self._database.run(upsert_report, self._worker, self._started_at, self._clock(), jobs)

    async def withdraw(self) -> None:
        """After an orderly stop this worker is not missing."""
        await self._database.run(delete_reports, self._worker, self._clock() - KEPT)

    async def watch(self) -> None:
        """Report again and again, until cancelled."""
        await repeat(self.report, REPORT_EVERY_S, "jobs_not_reported")


UPSERT_REPORT = """
INSERT INTO worker_reports (worker, started_at, reported_at, jobs) VALUES ($1, $2, $3, $4)
ON CONFLICT (worker) DO UPDATE SET reported_at = excluded.reported_at, jobs = excluded.jobs
"""


async def upsert_report(connection: Connection, worker: str, started_at: datetime, now: datetime, jobs: str) -> None:
    await connection.execute(UPSERT_REPORT, worker, started_at, now, jobs)


DELETE_REPORTS = "DELETE FROM worker_reports WHERE worker = $1 OR reported_at < $2"


async def delete_reports(connection: Connection, worker: str, older_than: datetime) -> None:
    """Deletes the reports of this worker, and of workers that ended long ago without an orderly stop."""
    await connection.execute(DELETE_REPORTS, worker, older_than)
