"""Reports to the database when each job of this worker last ran, for the operator's page."""

import asyncio
import json
import os
import socket
from datetime import timedelta

import structlog

from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.db.pool import Database
from tonne.platform.jobs import report_store
from tonne.platform.jobs.metrics import JobMetrics
from tonne.platform.values.clock import Clock, utc_now

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
        await self._database.run(report_store.upsert_report, self._worker, self._started_at, self._clock(), jobs)

    async def withdraw(self) -> None:
        """After an orderly stop this worker is not missing."""
        await self._database.run(report_store.delete_reports, self._worker, self._clock() - KEPT)

    async def watch(self) -> None:
        """Report again and again, until cancelled."""
        while True:
            try:
                await self.report()
            except DATABASE_ERRORS as error:
                _log.debug("jobs_not_reported", error=repr(error))
            await asyncio.sleep(REPORT_EVERY_S)
