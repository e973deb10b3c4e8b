"""SQL for what workers report about their jobs."""

from datetime import datetime

from tonne.platform.db.pool import Connection

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
