"""What workers last reported about their jobs, put together for the operator."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from tonne.platform.db.database import Connection

# Workers report every 5 s. One that is silent for longer is not running, or has lost the database.
SILENT_AFTER = timedelta(seconds=30)
MAX_REPORTS = 100


class WorkerState(Struct, frozen=True):
    name: str
    started_at: datetime
    reported_at: datetime
    is_silent: bool


class JobState(Struct, frozen=True):
    """The state of one job in all workers that run. `failures` are those of the worst worker since its last success."""

    name: str
    workers: int
    succeeded_at: datetime
    worked_at: datetime | None
    failed_at: datetime | None
    failures: int
    running_s: float | None


LIST_REPORTS = """
SELECT worker, started_at, reported_at, jobs FROM worker_reports ORDER BY reported_at DESC, worker LIMIT $1
"""


async def read_workers(connection: Connection, now: datetime) -> tuple[list[WorkerState], list[JobState]]:
    """The workers, and the jobs of those that are not silent."""
    states, jobs = [], dict[str, list[dict[str, Any]]]()
    for row in await connection.fetch(LIST_REPORTS, MAX_REPORTS):
        is_silent = now - row["reported_at"] > SILENT_AFTER
        states.append(WorkerState(row["worker"], row["started_at"], row["reported_at"], is_silent))
        for job in () if is_silent else json.loads(row["jobs"]):
            jobs.setdefault(job["name"], []).append(job)
    return states, [_job(name, reports) for name, reports in jobs.items()]


def _job(name: str, reports: Sequence[dict[str, Any]]) -> JobState:
    def newest(field: str) -> datetime | None:
        times = [each[field] for each in reports if each[field] is not None]
        return datetime.fromtimestamp(max(times), UTC) if times else None

    running = [each["running_s"] for each in reports if each["running_s"] is not None]
    succeeded_at = newest("succeeded_at")
    if succeeded_at is None:
        raise LookupError(f"the job {name} has no start")
    return JobState(
        name=name,
        workers=len(reports),
        succeeded_at=succeeded_at,
        worked_at=newest("worked_at"),
        failed_at=newest("failed_at"),
        failures=max(each["failures"] for each in reports),
        running_s=max(running) if running else None,
    )
