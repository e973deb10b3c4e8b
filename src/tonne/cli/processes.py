"""Starting the api and worker processes, and stopping them in order."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

import click

from tonne.base.settings import Settings

STOP_WITHIN_S = 20.0
READY_WITHIN_S = 30.0


def check_port_free(settings: Settings) -> None:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise click.ClickException(
                f"Cannot listen on {settings.host} port {settings.port} ({error.strerror}): stop what uses it, or set "
                "TONNE_PORT to a free port."
            ) from error


class Processes:
    """Our own commands as child processes, each in a session of its own: Ctrl-C reaches the parent alone."""

    def __init__(self, database_url: str) -> None:
        self._environment = {**os.environ, "TONNE_DATABASE_URL": database_url}
        self._children: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, command: str) -> None:
        child = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "tonne", command, "--stop-with-parent"],
            env=self._environment,
            start_new_session=True,
        )
        self._children.append((command, child))

    def ended(self) -> str | None:
        """The name of a child that has ended, if any has."""
        return next((name for name, child in self._children if child.poll() is not None), None)

    def stop(self) -> None:
        """Ask all to finish what they are doing; after a while, insist."""
        for _, child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_WITHIN_S
        for _, child in self._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.1, deadline - time.monotonic()))
            # Whatever is left of the child's own processes, also when it was killed itself.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def wait_until_ready(processes: Processes, settings: Settings, stopping: Sequence[bool]) -> bool:
    """True once the api answers; false when a child has ended, time is up, or we are stopping."""
    url = f"http://{'127.0.0.1' if settings.host in {'0.0.0.0', '::'} else settings.host}:{settings.port}/health/ready"  # noqa: S104 - compared, not bound
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and processes.ended() is None and not stopping:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False
