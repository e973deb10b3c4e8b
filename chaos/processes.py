"""The service under test as what it is in production: `tonne api` and `tonne worker`, processes of their own."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from chaos.certificates import HOST

_ROOT = Path(__file__).resolve().parent.parent
STOP_WITHIN_S = 15.0


class Process:
    """One of our commands. It ends with this process, even if that is killed."""

    def __init__(self, command: str, environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TONNE_")}
        with log.open("ab") as log_file:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tonne", command, "--stop-with-parent"],
                cwd=_ROOT,
                env={**inherited, **environment},
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed, the system closes its connections."""
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
            self._child.wait()

    def freeze(self) -> None:
        """SIGSTOP: as a machine that pauses, or a process that the system does not let run."""
        self._child.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        self._child.send_signal(signal.SIGTERM)

    async def ended(self, within_s: float) -> int | None:
        """The exit code, or None when it still runs after that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._child.wait, within_s)
        return self._child.poll()

    async def stop(self) -> bool:
        """In order; false when it had to be killed in the end."""
        if self.running:
            self.wake()
            self.ask_to_stop()
            if await self.ended(STOP_WITHIN_S) is None:
                self.kill()
                return False
        return True

    def owns_port(self, port: int) -> bool:
        """Whether a connection from this local port is this process's."""
        if not self.running:
            return False
        return any(entry.laddr.port == port for entry in psutil.Process(self.pid).net_connections("tcp4"))

    def resident_mb(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss) / 1e6


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
