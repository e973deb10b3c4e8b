"""The worker under test: `tonne worker` as a process of its own, and what it costs."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.checks import NotMeasured
from bench.stage import BACKENDS, Stage

_ROOT = Path(__file__).resolve().parent.parent
_COMMAND = [sys.executable, "-m", "tonne", "worker", "--stop-with-parent"]
_LOOK_EVERY_S = 0.03
_READY_WITHIN_S = 30.0
_STOP_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Worker:
    stage: Stage
    process: psutil.Process
    # Database connections that others had open before it started.
    foreign_backends: frozenset[int]

    @property
    def resident_mb(self) -> float:
        return float(self.process.memory_info().rss) / 1e6

    async def cpu_s(self) -> float:
        """What the worker and its connections to the database have used so far."""
        own = await _backends(self.stage) - self.foreign_backends
        return float(sum(sum(process.cpu_times()[:2]) for process in (self.process, *map(psutil.Process, own))))


@contextlib.asynccontextmanager
async def working(stage: Stage, settings: Mapping[str, str]) -> AsyncIterator[Worker]:
    """One worker with its defaults, except for these settings; it has reached the database."""
    before = await _backends(stage)
    with _running(stage, settings) as child:
        deadline = time.monotonic() + _READY_WITHIN_S
        while await _backends(stage) <= before:
            if child.poll() is not None or time.monotonic() > deadline:
                raise NotMeasured(f"The worker did not start:\n{_log_file(stage).read_text()[-2000:]}")
            await asyncio.sleep(_LOOK_EVERY_S)
        yield Worker(stage, psutil.Process(child.pid), before)
        if child.poll() is not None:
            raise NotMeasured("The worker has ended by itself.")


@contextlib.contextmanager
def _running(stage: Stage, settings: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TONNE_")} | {
        "TONNE_DATABASE_URL": stage.url,
        "TONNE_DATA_DIR": str(stage.bodies.parent),
        **settings,
    }
    with _log_file(stage).open("ab") as log_file:
        child = subprocess.Popen(
            _COMMAND, cwd=_ROOT, env=environment, stdout=log_file, stderr=log_file, start_new_session=True
        )
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _log_file(stage: Stage) -> Path:
    return stage.bodies.parent / "worker.log"


async def _backends(stage: Stage) -> frozenset[int]:
    async with stage.connection() as connection:
        return frozenset(row["pid"] for row in await connection.fetch(BACKENDS))
