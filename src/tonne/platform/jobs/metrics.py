"""Metrics of the jobs of a worker."""

import time
from collections.abc import Iterable
from typing import Any

from tonne.platform.process.telemetry import instruments


class JobMetrics:
    """The label is `job_name`: Prometheus itself gives every series a label `job`."""

    def __init__(self) -> None:
        self._runs = instruments.CounterFamily(
            "tonne_job_runs_total",
            "Runs of jobs: worked, idle (nothing was due), failed, or unavailable (the database was away).",
            "job_name",
            "outcome",
        )
        self._seconds = instruments.HistogramFamily(
            "tonne_job_run_seconds", "Duration of runs that were not idle.", "job_name", bounds=instruments.SLOW_BOUNDS
        )
        self._succeeded_at: dict[str, float] = {}
        self._worked_at: dict[str, float] = {}
        self._failed_at: dict[str, float] = {}
        # Failures since the last success.
        self._failures: dict[str, int] = {}
        # Runs in progress, by when they began on the monotonic clock.
        self._begun_at: dict[str, float] = {}

    @property
    def metrics(self) -> tuple[instruments.Metric, ...]:
        succeeded = instruments.GaugeFamily(
            "tonne_job_last_success_timestamp_seconds",
            "When a run last ended without a failure, or the worker started.",
            "job_name",
            read=self._successes,
            combine=instruments.Combine.MAX,
        )
        return self._runs, self._seconds, succeeded

    def register(self, job: str) -> None:
        """Series exist from the start of the worker: an increase from nothing to one failure would not be seen."""
        for outcome in ("worked", "idle", "failed", "unavailable"):
            self._runs.of(job, outcome)
        self._succeeded_at[job] = time.time()

    def begin(self, job: str) -> None:
        self._begun_at[job] = time.monotonic()

    def running_longer_than(self, seconds: float) -> list[str]:
        """The jobs whose run has not ended since."""
        return [job for job, at in self._begun_at.items() if time.monotonic() - at > seconds]

    def succeed(self, job: str, *, worked: bool, seconds: float) -> None:
        self._begun_at.pop(job, None)
        self._runs.inc(job, "worked" if worked else "idle")
        self._succeeded_at[job] = time.time()
        self._failures.pop(job, None)
        if worked:
            self._worked_at[job] = time.time()
            self._seconds.of(job).observe(seconds)

    def fail(self, job: str, seconds: float, outcome: str = "failed") -> None:
        self._begun_at.pop(job, None)
        self._runs.inc(job, outcome)
        self._failed_at[job] = time.time()
        self._failures[job] = self._failures.get(job, 0) + 1
        self._seconds.of(job).observe(seconds)

    def states(self) -> list[dict[str, Any]]:
        """The states of all jobs as JSON values: times are Unix timestamps, None if it never happened."""
        now = time.monotonic()
        return [
            {
                "name": job,
                "succeeded_at": at,
                "worked_at": self._worked_at.get(job),
                "failed_at": self._failed_at.get(job),
                "failures": self._failures.get(job, 0),
                "running_s": now - self._begun_at[job] if job in self._begun_at else None,
            }
            for job, at in self._succeeded_at.items()
        ]

    def _successes(self) -> Iterable[tuple[instruments.Labels, float]]:
        return [((job,), at) for job, at in self._succeeded_at.items()]
