"""Starting and stopping the API and worker processes."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

import click

from tonne.base.environment import with_database_url
from tonne.base.settings import Settings

# Beyond the longest webhook request and the drain time: a worker that is killed leaves its leases to expire.
STOP_MARGIN_S = 10.0
READY_WITHIN_S = 30.0


def check_port_free(settings: Settings) -> None:
    _check_free(settings.host, settings.port, "TONNE_PORT")
    check_metrics_port_free(settings)


def check_metrics_port_free(settings: Settings) -> None:
    if settings.metrics_port:
        _check_free(settings.metrics_host, settings.metrics_port, "TONNE_METRICS_PORT")


def _check_free(host: str, port: int, setting: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise click.ClickException(
                f"Cannot listen on {host} port {port} ({error.strerror}). Stop the program that uses it, or set "
                f"{setting} to a free port."
            ) from error


class Processes:
    """Runs commands as child processes, each in its own session, so that Ctrl-C reaches only the parent."""

    def __init__(self, database_url: str, settings: Settings) -> None:
        self._stop_within_s = settings.webhook_timeout_s + settings.drain_s + STOP_MARGIN_S
        self._environment = with_database_url(os.environ, database_url)
        self._children: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, command: str) -> None:
        child = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "tonne", command, "--stop-with-parent"],
            env=self._environment,
            start_new_session=True,
        )
        self._children.append((command, child))

    def ended(self) -> str | None:
        """The name of a child that has exited, if any."""
        return next((name for name, child in self._children if child.poll() is not None), None)

    def stop(self) -> None:
        """Terminate all children, and kill those that have not exited in time."""
        for _, child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self._stop_within_s
        for _, child in self._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.1, deadline - time.monotonic()))
            # Also kills the child's own processes, which outlive it if it was killed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def wait_until_ready(processes: Processes, settings: Settings, stopping: Sequence[bool]) -> bool:
    """True once the API responds; false when a child has exited, on a timeout, or when stopping."""
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline and processes.ended() is None and not stopping:
        if responds(settings, "/health/ready"):
            return True
        time.sleep(0.1)
    return False


def responds(settings: Settings, path: str) -> bool:
    """Whether the API returns 200. Not with urllib, which would use a proxy that is set in the environment."""
    connection = http.client.HTTPConnection(settings.local_host, settings.port, timeout=2)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
