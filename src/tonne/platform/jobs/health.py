"""The health checks of a worker, for systemd, containers and monitoring."""

import asyncio

from msgspec import Struct

from tonne.platform.http.health import HealthEndpoints
from tonne.platform.jobs.metrics import JobMetrics


class WorkerHealth(Struct, frozen=True):
    """A worker whose event loop is blocked does not respond at all."""

    database: HealthEndpoints
    jobs: JobMetrics
    stop: asyncio.Event
    # A run that takes longer waits for something that will never come.
    stuck_after_s: float

    def why_not_live(self) -> list[str]:
        """Not the database: a restart would not bring it back, and the worker reconnects by itself."""
        stuck = self.jobs.running_longer_than(self.stuck_after_s)
        return [f"the job {job} has been running for more than {self.stuck_after_s:g} s" for job in stuck]

    async def why_not_ready(self) -> list[str]:
        stopping = ["the process is about to stop"] if self.stop.is_set() else []
        return [*stopping, *self.why_not_live(), *await self.database.why_not_ready()]
