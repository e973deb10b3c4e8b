"""Commands of the project as processes of their own, started the way an operator starts them."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
READY_WITHIN_S = 60.0
STOP_WITHIN_S = 20.0


def environment(settings: Mapping[str, object]) -> dict[str, str]:
    """The environment of this process with these Tonne settings and no others.

    Without a setting of its own, an api stops at once: no load balancer has to notice it.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TONNE_")}
    return inherited | {f"TONNE_{name.upper()}": str(value) for name, value in {"drain_s": 0, **settings}.items()}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """`python -m <module> <arguments>` in a process group of its own; its output is appended to `log`.

    `wrapper` is a command that executes the command that follows it.
    """

    def __init__(
        self, module: str, *arguments: str, settings: Mapping[str, object], log: Path, wrapper: Sequence[str] = ()
    ) -> None:
        self.log = log
        with log.open("ab") as log_file:
            self._child = subprocess.Popen(
                [*wrapper, sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=environment(settings),
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

    @property
    def resident_mb(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss) / 1e6

    def kill(self) -> None:
        """Send SIGKILL to the whole group: no handler runs and nothing is flushed."""
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
            self._child.wait()

    def freeze(self) -> None:
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        self._child.send_signal(signal.SIGTERM)

    def wait(self, within_s: float) -> int | None:
        """The exit code, or None if the process still runs after that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(within_s)
        return self._child.poll()

    def stop(self, within_s: float = STOP_WITHIN_S) -> bool:
        """Send SIGTERM and wait. False if the process had to be killed."""
        if self.running:
            self.resume()
            self.terminate()
            if self.wait(within_s) is None:
                self.kill()
                return False
        return True

    def owns_port(self, port: int) -> bool:
        """Whether this process has a connection from this local port."""
        if not self.running:
            return False
        return any(entry.laddr.port == port for entry in psutil.Process(self.pid).net_connections("tcp4"))

    def wait_until_ready(self, port: int, within_s: float = READY_WITHIN_S) -> None:
        """Wait until `/health/ready` on this port returns 200."""
        deadline = time.monotonic() + within_s
        while self.running and time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(HOST, port, timeout=2)
                connection.request("GET", "/health/ready")
                is_ready = connection.getresponse().status == 200
                connection.close()
                if is_ready:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"The server is not ready:\n{self.log.read_text()[-2000:]}")
