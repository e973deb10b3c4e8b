"""Reports to the database when each job of this worker last ran, for the operator's page."""

import asyncio
import json
import os
import socket
from datetime import datetime, timedelta

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.jobs.metrics import JobMetrics
from tonne.platform.values.context import Clock, utc_now

REPORT_EVERY_S = 5.0
# Reports of workers that were killed are kept this long, so that the operator sees that one is missing.
KEPT = timedelta(days=1)

_log = structlog.get_logger()


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
        while True:
            try:
                await self.report()
            except DATABASE_ERRORS as error:
                _log.debug("jobs_not_reported", error=repr(error))
            await asyncio.sleep(REPORT_EVERY_S)


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
