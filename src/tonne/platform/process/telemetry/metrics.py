"""Metrics of this process: requests, and what the other parts have registered; and of several processes, added up.

Processes share a folder. Each has a slot: a file with its latest values, and a lock that it holds while it runs. The
next process that starts takes a free slot and continues its counters, so that no counter goes down when a process is
restarted, and the number of files stays that of the processes. Readers use only the files, and a process writes its own
file before it reads: whichever process is asked, no counter is less than in an earlier answer.
"""

import asyncio
import contextlib
import fcntl
import itertools
import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec
import structlog

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
    add_up,
    with_label,
    without_gauges,
)
from tonne.platform.process.telemetry.logs import LOGGED
from tonne.platform.process.telemetry.objectives import objective_of

_STARTED_AT = time.time()


class Metrics:
    """`process` is api or worker. It becomes a label of every metric."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.in_flight = 0
        requests = CounterFamily("tonne_http_requests_total", "Requests.", "method", "group", "route", "status")
        seconds = HistogramFamily(
            "tonne_http_request_seconds", "Duration of requests.", "method", "group", "route", bounds=FAST_BOUNDS
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
            group = objective_of(method, route)
            observed = self._observed[key] = (
                self._requests.of(method, group, route, str(status)),
                self._seconds.of(method, group, route),
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


# Names the folder: `tonne serve` and `tonne api` create it for their child processes.
FOLDER_VARIABLE = "_TONNE_METRICS_DIR"
WRITE_EVERY_S = 1.0

_log = structlog.get_logger()
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Snapshot])


class MetricsFolder:
    """The slot of this process. Create it in the process itself, not before a fork."""

    def __init__(self, folder: Path, metrics: Metrics) -> None:
        self._folder = folder
        self._metrics = metrics
        self._writing = asyncio.Lock()
        self._slot, self._lock_file = _take_slot(folder, metrics.process)
        # The counters of processes that had the slot before.
        self._earlier = without_gauges(_read(self._slot))

    async def write(self) -> None:
        async with self._writing:
            snapshot = self._metrics.snapshot()
            await asyncio.to_thread(self._write, snapshot)

    async def read_all(self) -> list[Snapshot]:
        """The sum over all processes, this one up to date."""
        await self.write()
        return await asyncio.to_thread(read_folder, self._folder)

    async def write_for_ever(self) -> None:
        while True:
            try:
                await self.write()
            except OSError as error:
                _log.warning("metrics_not_written", error=repr(error))
            await asyncio.sleep(WRITE_EVERY_S)

    async def close(self) -> None:
        """Leave the final counters, and free the slot."""
        with contextlib.suppress(OSError):
            await self.write()
        self._lock_file.close()

    def _write(self, snapshot: Iterable[Snapshot]) -> None:
        current = [*snapshot, *process_snapshot(self._metrics.process)]
        content = _encoder.encode(add_up([*self._earlier, *current]))
        written = self._slot.with_suffix(".new")
        written.write_bytes(content)
        written.replace(self._slot)
        # Programs that clean up temporary folders delete files that have not changed for days.
        os.utime(self._lock_file.name)


def read_folder(folder: Path) -> list[Snapshot]:
    """The sum over all slots. Gauges of processes that have ended are left out."""
    found: list[Snapshot] = []
    for slot in sorted(folder.glob("*.slot")):
        snapshots = _read(slot)
        found += snapshots if _is_running(slot) else without_gauges(snapshots)
    return add_up(found)


def _take_slot(folder: Path, process: str) -> tuple[Path, IO[bytes]]:
    for number in itertools.count():
        slot = folder / f"{process}-{number}.slot"
        lock_file = slot.with_suffix(".lock").open("ab")
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock_file.close()
        else:
            return slot, lock_file
    raise AssertionError("unreachable")


def _is_running(slot: Path) -> bool:
    """Whether a process holds the lock."""
    try:
        with slot.with_suffix(".lock").open("rb") as lock_file:
            fcntl.flock(lock_file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read(slot: Path) -> list[Snapshot]:
    try:
        return _decoder.decode(slot.read_bytes())
    except (OSError, msgspec.DecodeError):
        return []
