"""Metrics of the jobs of a worker."""

import time
from collections.abc import Iterable

from tonne.base.instruments import SLOW_BOUNDS, Combine, CounterFamily, GaugeFamily, HistogramFamily, Labels, Metric


class JobMetrics:
    """The label is `job_name`: Prometheus itself gives every series a label `job`."""

    def __init__(self) -> None:
        self._runs = CounterFamily(
            "tonne_job_runs_total", "Runs of jobs: worked, idle (nothing was due) or failed.", "job_name", "outcome"
        )
        self._seconds = HistogramFamily(
            "tonne_job_run_seconds", "Duration of runs that were not idle.", "job_name", bounds=SLOW_BOUNDS
        )
        self._succeeded_at: dict[str, float] = {}

    @property
    def metrics(self) -> tuple[Metric, ...]:
        succeeded = GaugeFamily(
            "tonne_job_last_success_timestamp_seconds",
            "When a run last ended without a failure, or the worker started.",
            "job_name",
            read=self._successes,
            combine=Combine.MAX,
        )
        return self._runs, self._seconds, succeeded

    def start(self, job: str) -> None:
        """Series exist from the start: an increase from nothing to one failure would not be seen."""
        for outcome in ("worked", "idle", "failed"):
            self._runs.of(job, outcome)
        self._succeeded_at[job] = time.time()

    def succeed(self, job: str, *, worked: bool, seconds: float) -> None:
        self._runs.inc(job, "worked" if worked else "idle")
        self._succeeded_at[job] = time.time()
        if worked:
            self._seconds.of(job).observe(seconds)

    def fail(self, job: str, seconds: float) -> None:
        self._runs.inc(job, "failed")
        self._seconds.of(job).observe(seconds)

    def _successes(self) -> Iterable[tuple[Labels, float]]:
        return [((job,), at) for job, at in self._succeeded_at.items()]
