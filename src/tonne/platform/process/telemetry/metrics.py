"""Metrics of this process: requests, and what the other parts have registered."""

import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path

from tonne import __version__
from tonne.platform.process.telemetry.error_reports import REPORTS
from tonne.platform.process.telemetry.instruments import (
    FAST_BOUNDS,
    Combine,
    Counter,
    CounterFamily,
    GaugeFamily,
    Histogram,
    HistogramFamily,
    Labels,
    Metric,
    MetricKind,
    Snapshot,
    with_label,
)
from tonne.platform.process.telemetry.logs import LOGGED

_STARTED_AT = time.time()


class Metrics:
    """`process` is api or worker. It becomes a label of every metric."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.in_flight = 0
        requests = CounterFamily("tonne_http_requests_total", "Requests.", "method", "route", "status")
        seconds = HistogramFamily(
            "tonne_http_request_seconds", "Duration of requests.", "method", "route", bounds=FAST_BOUNDS
        )
        self._requests, self._seconds = requests, seconds
        # By method, route and status: found with one look-up per request.
        self._observed: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._metrics: list[Metric] = [
            GaugeFamily(
                "tonne_build_info",
                "Always 1; the labels name the release.",
                "version",
                "python",
                read=lambda: [((__version__, platform.python_version()), 1)],
                combine=Combine.MAX,
            ),
            LOGGED,
            REPORTS,
            requests,
            seconds,
            GaugeFamily("tonne_http_requests_in_flight", "Requests in progress.", read=lambda: [((), self.in_flight)]),
        ]

    def add(self, *metrics: Metric) -> None:
        self._metrics += metrics

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        observed = self._observed.get(key)
        if observed is None:
            observed = self._observed[key] = (
                self._requests.of(method, route, str(status)),
                self._seconds.of(method, route),
            )
        observed[0].value += 1
        observed[1].observe(seconds)

    def snapshot(self) -> list[Snapshot]:
        """Cheap, and not thread-safe: call it in the event loop."""
        return [with_label(metric.snapshot(), "process", self.process) for metric in self._metrics]


def process_snapshot(process: str) -> list[Snapshot]:
    """CPU time, memory and files of this process. Reads /proc, so not in the event loop."""
    times = os.times()
    label: Labels = ("process",)

    def one(name: str, kind: MetricKind, text: str, value: float, combine: Combine = Combine.SUM) -> Snapshot:
        return Snapshot(name, kind, text, label, [((process,), [value])], combine=combine)

    found = [
        one("tonne_processes", MetricKind.GAUGE, "Running processes.", 1),
        one("process_cpu_seconds_total", MetricKind.COUNTER, "CPU time used.", round(times.user + times.system, 2)),
        one(
            "process_start_time_seconds", MetricKind.GAUGE, "When the newest process started.", _STARTED_AT, Combine.MAX
        ),
    ]
    return [*found, *(one(name, MetricKind.GAUGE, text, value) for name, text, value in _from_proc())]


def _from_proc() -> Iterable[tuple[str, str, float]]:
    """Nothing on systems without /proc."""
    folder = Path("/proc/self")
    try:
        pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
        files = sum(1 for _ in (folder / "fd").iterdir())
    except OSError:
        return ()
    return (
        ("process_resident_memory_bytes", "Memory in use.", pages * os.sysconf("SC_PAGE_SIZE")),
        ("process_open_fds", "Open files and connections.", files),
    )
