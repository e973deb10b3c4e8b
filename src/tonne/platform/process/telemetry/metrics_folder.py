"""The metrics of several processes, added up through a folder that they share.

Each process has a slot: a file with its latest values, and a lock that it holds while it runs. The next process that
starts takes a free slot and continues its counters, so that no counter goes down when a process is restarted, and the
number of files stays that of the processes. Readers use only the files, and a process writes its own file before it
reads: whichever process is asked, no counter is less than in an earlier answer.
"""

import asyncio
import contextlib
import fcntl
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec
import structlog

from tonne.platform.process.telemetry.instruments import Snapshot, add_up, without_gauges
from tonne.platform.process.telemetry.metrics import Metrics, process_snapshot

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
