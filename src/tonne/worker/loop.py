"""Runs the jobs of a worker. A job is a function that processes due rows and returns whether there were any."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

_log = structlog.get_logger()
# Maximum back-off after repeated failures of a job.
MAX_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Job:
    """`run_once` must leave nothing half done when it raises or is cancelled."""

    name: str
    run_once: Callable[[], Awaitable[bool]]
    # Waits for the tasks that `run_once` has started.
    drain: Callable[[], Awaitable[None]] | None = None
    # Set by a notification that there is work: the job then runs without waiting for its next poll.
    wake: asyncio.Event = field(default_factory=asyncio.Event)


async def run_jobs(jobs: Sequence[Job], stop: asyncio.Event, poll_s: float) -> None:
    """Run all jobs concurrently until `stop` is set, then finish the work in progress."""
    await asyncio.gather(*(_run(job, stop, poll_s) for job in jobs))
    await asyncio.gather(*(job.drain() for job in jobs if job.drain is not None))


async def _run(job: Job, stop: asyncio.Event, poll_s: float) -> None:
    failures = 0
    while not stop.is_set():
        job.wake.clear()
        try:
            worked = await job.run_once()
            failures = 0
        except Exception:  # noqa: BLE001 - one failing job must neither end itself nor the others
            failures += 1
            worked = False
            _log.exception("job_failed", job=job.name, failures=failures)
        if not worked:
            # Jitter, so that workers do not all poll at the same time.
            pause = min(MAX_PAUSE_S, poll_s * 2**failures) if failures else poll_s
            await _sleep(stop, job.wake, pause * random.uniform(0.8, 1.2))  # noqa: S311 - spreading load, not a secret


async def _sleep(stop: asyncio.Event, wake: asyncio.Event, seconds: float) -> None:
    waits = [asyncio.create_task(event.wait()) for event in (stop, wake)]
    await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in waits:
        task.cancel()
