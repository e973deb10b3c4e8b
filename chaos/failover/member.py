"""One database machine of the Patroni cluster: etcd, Patroni and PostgreSQL, as processes that can fail."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from chaos.model import NotAsExpected
from tonne.platform.db.server.postmaster import unprivileged

# Debian puts some programs where only root has a path to them.
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
STOP_WITHIN_S = 20.0


class Daemon:
    """A command in the foreground that ends with this process, even if this process is killed."""

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], log: Path, wrapper: Sequence[str] = ()
    ) -> None:
        """`wrapper` executes the command that follows it, for example on another machine."""
        self._command = [*wrapper, *unprivileged(), "setpriv", "--pdeathsig", "TERM", "--", *command]
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PG", "PATRONI", "ETCD"))
        }
        self._environment = inherited | {"PATH": PATH, "LC_ALL": "C"} | dict(variables)
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def process(self) -> psutil.Process | None:
        return psutil.Process(self._child.pid) if self._child is not None and self.running else None

    def start(self) -> None:
        """Call it from the main thread: the kernel ends the command with the thread that started it."""
        if not self.running:
            with self._log.open("ab") as log:
                self._child = subprocess.Popen(
                    self._command, env=self._environment, stdout=log, stderr=log, start_new_session=True
                )

    def stop(self) -> None:
        if self._child is not None and self.running:
            self._child.send_signal(signal.SIGCONT)
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_WITHIN_S)
        self.reap()

    def reap(self) -> None:
        """Kill it if it still runs."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()


class Member:
    def __init__(self, name: str, address: str, folder: Path, etcd: Daemon, patroni: Daemon) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self.etcd = etcd
        self.patroni = patroni

    @property
    def postmaster(self) -> psutil.Process | None:
        """The running PostgreSQL server on this member's data, if any."""
        with contextlib.suppress(OSError, ValueError, IndexError, psutil.Error):
            data = self.folder / "data"
            process = psutil.Process(int((data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0]))
            if str(data) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def kill(self) -> None:
        """Kill Patroni and all processes of PostgreSQL with SIGKILL at once, as if the machine lost its power."""
        self._signal(self._all(), signal.SIGKILL)
        self.patroni.reap()

    def kill_postgres(self) -> None:
        """Kill PostgreSQL only; Patroni notices."""
        self._signal(self._postgres(), signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all processes without closing a connection, as if the machine hung."""
        self._signal(self._all(), signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(self._all(), signal.SIGCONT)

    def freeze_senders(self) -> int:
        """Stop the processes that send the write-ahead log to replicas: these lag from now on. Returns their number."""
        found = [process for process in self._postgres() if "walsender" in " ".join(process.cmdline())]
        self._signal(found, signal.SIGSTOP)
        return len(found)

    def stop(self) -> None:
        """Stop PostgreSQL and Patroni, also if they hang or Patroni is gone."""
        self.resume()
        self.patroni.stop()
        deadline = time.monotonic() + STOP_WITHIN_S
        if (process := self.postmaster) is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGQUIT)
            while self.postmaster is not None and time.monotonic() < deadline:
                time.sleep(0.1)
        self._signal(self._postgres(), signal.SIGKILL)
        self.etcd.stop()

    def _all(self) -> list[psutil.Process]:
        patroni = self.patroni.process
        return [*([patroni] if patroni is not None else []), *self._postgres()]

    def _postgres(self) -> list[psutil.Process]:
        process = self.postmaster
        with contextlib.suppress(psutil.NoSuchProcess):
            return [] if process is None else [process, *process.children(recursive=True)]
        return []

    @staticmethod
    def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def find_program(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        raise NotAsExpected(f"{name} is not installed: run deploy/patroni/install.sh as root")
    return found
