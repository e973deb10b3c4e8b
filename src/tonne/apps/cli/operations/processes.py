"""Starting and stopping the API and worker processes."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory

import click

from tonne.apps.cli.database import with_connection
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.platform.db.database import connect
from tonne.platform.db.schema import migrate as migrations
from tonne.platform.db.session_settings import require_role_settings
from tonne.platform.keys.check_secret_key import check_secret_key
from tonne.platform.process.telemetry.metrics import FOLDER_VARIABLE
from tonne.platform.settings.environment import with_settings
from tonne.platform.settings.settings import Settings

# Beyond the longest webhook request: a worker that is killed leaves its leases to expire.
STOP_MARGIN_S = 10.0
READY_WITHIN_S = 30.0
WITH_PARENT = click.option("--stop-with-parent", "with_parent", is_flag=True, hidden=True)


def check_port_free(settings: Settings) -> None:
    _check_free(settings.host, settings.port, "TONNE_PORT")
    check_metrics_port_free(settings)


def check_metrics_port_free(settings: Settings) -> None:
    if settings.metrics_port:
        _check_free(settings.metrics_host, settings.metrics_port, "TONNE_METRICS_PORT")


def check_worker_port_free(settings: Settings) -> None:
    if settings.worker_health_port:
        _check_free(settings.metrics_host, settings.worker_health_port, "TONNE_WORKER_HEALTH_PORT")


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


async def require_ready(url: str, settings: Settings) -> None:
    """Raise an error if this release or the secret key does not match the database, or the role has no time limits."""
    if settings.database_pooling == "transaction":
        pooled = await connect(settings.database_url, settings)
        try:
            await require_role_settings(pooled, settings)
        finally:
            await pooled.close()
    await with_connection(url, migrations.require_compatible)
    await with_connection(url, lambda connection: check_secret_key(connection, settings, ALL_SEALED))


@contextlib.contextmanager
def metrics_folder(settings: Settings) -> Iterator[None]:
    """A folder in which the child processes add up their metrics, unless the parent has made one."""
    if FOLDER_VARIABLE in os.environ or not (settings.metrics_port or settings.metrics_token):
        yield
        return
    with TemporaryDirectory(prefix="tonne-metrics-", ignore_cleanup_errors=True) as folder:
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER_VARIABLE]


class Processes:
    """Runs commands as child processes, each in its own session, so that Ctrl-C reaches only the parent."""

    def __init__(self, database_url: str, settings: Settings) -> None:
        self._stop_within_s = settings.webhook_timeout_s + STOP_MARGIN_S
        # The whole service stops: there is no other server to which requests could go, so there is no drain.
        self._environment = with_settings(os.environ, database_url=database_url, drain_s="0")
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
