"""tonne api and tonne worker: starting and stopping the API and worker processes."""

import asyncio
import contextlib
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import uvloop
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from tonne.apps.cli.database import open_database, plain_failures, settings_from_environment, with_connection
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.platform.db.database import Database, connect
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.db.schema import migrate as migrations
from tonne.platform.db.session_settings import require_role_settings
from tonne.platform.events.notification import ListenMetrics, listen
from tonne.platform.http.drain import DRAIN_VARIABLE
from tonne.platform.http.limits.shared_buckets import KEY_BYTES, KEY_FILE, LIMITS_VARIABLE
from tonne.platform.http.telemetry import require_telemetry, start_telemetry, stop_telemetry
from tonne.platform.jobs.health import WorkerHealth
from tonne.platform.jobs.loop import JobReports, run_jobs, wake_jobs
from tonne.platform.jobs.metrics import JobMetrics
from tonne.platform.keys.check_secret_key import check_secret_key
from tonne.platform.process.memory import freeze_startup_objects
from tonne.platform.process.parent import stop_with_parent
from tonne.platform.process.telemetry.logs import configure_logs
from tonne.platform.process.telemetry.metrics import FOLDER_VARIABLE
from tonne.platform.settings.load_settings import DATABASE_URL_VARIABLE, FILE_SUFFIX, with_settings
from tonne.platform.settings.settings import Settings

# Beyond the longest webhook request: a worker that is killed leaves its leases to expire.
STOP_MARGIN_S = 10.0
READY_WITHIN_S = 30.0
# Connections of clients per api process, busy or not. A client that sends a body slowly holds one until its time limit.
MAX_CONNECTIONS = 8192
# What a process opens besides: files, pipes, connections to other services.
_OTHER_FILES = 256
WITH_PARENT = click.option("--stop-with-parent", "with_parent", is_flag=True, hidden=True)


def open_files_needed(settings: Settings) -> int:
    return MAX_CONNECTIONS + _OTHER_FILES + settings.database_connections + settings.webhook_concurrency


def allow_open_files(settings: Settings) -> int:
    """Raise the limit of open files as far as this process may, and return how many connections of clients fit.

    Shells and systemd allow 1,024 unless they are told otherwise, and far more to a process that asks. A process that
    accepts more connections than it has files for can neither open its templates nor its database.
    """
    needed = open_files_needed(settings)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(64, min(MAX_CONNECTIONS, most - _OTHER_FILES - settings.database_connections))


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


@click.command()
@WITH_PARENT
def worker(with_parent: bool) -> None:
    """Run a worker process. Any number of them can share one database."""
    with plain_failures():
        settings = settings_from_environment()
        configure_logs(settings.log_level, "worker")
        if with_parent:
            stop_with_parent()
        else:
            check_metrics_port_free(settings)
            check_worker_port_free(settings)
        allow_open_files(settings)
        start_telemetry(settings, "worker")
        try:
            with open_database(settings) as url:
                asyncio.run(require_ready(url, settings))
                uvloop.run(_work(url, settings))
        finally:
            stop_telemetry()


async def _work(url: str, settings: Settings) -> None:
    # All of Tonne, which takes a second: not for `tonne worker --help`.
    from tonne.apps.wiring.app import Services  # noqa: PLC0415

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    database = await Database(settings.database_url or url, settings).open()
    services = Services(database, settings, process="worker")
    # Before the first job runs.
    await services.hold.refresh()
    jobs, listening_metrics, job_metrics = services.jobs(), ListenMetrics(), JobMetrics()
    services.metrics.add(*listening_metrics.metrics, *job_metrics.metrics)
    serving = services.serve_metrics(WorkerHealth(services.health, job_metrics, stop, settings.worker_stuck_s))
    await serving.start()

    listening = asyncio.create_task(listen(url, settings, partial(wake_jobs, jobs), stop, listening_metrics))
    reports = JobReports(database, job_metrics)
    watched = (services.clock_drift, services.hold, services.reads, reports)
    watching = [asyncio.create_task(each.watch()) for each in watched]
    freeze_startup_objects()
    await run_jobs(jobs, stop, settings.worker_poll_s, job_metrics, lambda: services.hold.is_held)
    await listening
    for task in watching:
        task.cancel()
    with contextlib.suppress(*DATABASE_ERRORS):
        await reports.withdraw()
    await serving.stop()
    await services.close()


# Granian's own log lines, in the same format as ours.
_GRANIAN_LOGS = {
    "handlers": {"json": {"class": "tonne.platform.process.telemetry.logs.LibraryHandler"}},
    "loggers": {"_granian": {"handlers": ["json"], "propagate": False}},
}
HEADERS_WITHIN_MS = 5_000
BACKLOG = 4096


@click.command()
@WITH_PARENT
def api(with_parent: bool) -> None:
    """Run an API process. Any number of them can share one database."""
    with plain_failures():
        settings = settings_from_environment()
        require_telemetry(settings)
        configure_logs(settings.log_level, "api")
        if with_parent:
            stop_with_parent()
        else:
            check_port_free(settings)
        with (
            open_database(settings) as url,
            TemporaryDirectory(prefix="tonne-api-") as folder,
            metrics_folder(settings),
        ):
            asyncio.run(require_ready(url, settings))
            os.environ[DATABASE_URL_VARIABLE] = settings.database_url or url
            os.environ.pop(DATABASE_URL_VARIABLE + FILE_SUFFIX, None)
            os.environ[DRAIN_VARIABLE] = f"{folder}/draining"
            if settings.api_processes > 1:
                (Path(folder) / KEY_FILE).write_bytes(os.urandom(KEY_BYTES))
                os.environ[LIMITS_VARIABLE] = folder
            server = Server(
                "tonne.apps.wiring.app:create_app",
                factory=True,
                address=settings.host,
                port=settings.port,
                interface=Interfaces.ASGI,
                http=HTTPModes.http1,
                http1_settings=HTTP1Settings(header_read_timeout=HEADERS_WITHIN_MS),
                backlog=BACKLOG,
                backpressure=allow_open_files(settings),
                websockets=False,
                loop=Loops.uvloop,
                workers=settings.api_processes,
                respawn_failed_workers=True,
                workers_kill_timeout=15,
                log_level=LogLevels.warning,
                log_dictconfig=_GRANIAN_LOGS,
            )
            _drain_first(server, Path(folder) / "draining", settings.drain_s)
            server.serve()


def _drain_first(server: Any, drain_file: Path, drain_s: float) -> None:
    """Make /health/ready fail for a while before the listener closes: load balancers then stop sending requests.

    A second signal ends the wait.
    """
    stop = server.signal_handler_interrupt

    def drain(*arguments: object) -> None:
        is_second = drain_file.exists()
        drain_file.touch()
        if is_second or not drain_s:
            stop(*arguments)
            return
        timer = threading.Timer(drain_s, stop, arguments)
        # Must not keep the process alive after a second signal.
        timer.daemon = True
        timer.start()

    server.signal_handler_interrupt = drain
