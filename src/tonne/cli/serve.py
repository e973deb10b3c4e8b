"""tonne serve, api and worker"""

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import click
import uvloop
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from tonne.app import Services
from tonne.base.environment import DATABASE_URL_VARIABLE, FILE_SUFFIX
from tonne.base.logs import configure_logs
from tonne.base.memory import freeze_startup_objects
from tonne.base.parent import stop_with_parent
from tonne.base.settings import Settings
from tonne.cli.database import open_database, plain_failures, settings_from_environment, with_connection
from tonne.cli.demo import Demo, ensure_demo, print_demo, warn_if_reachable
from tonne.cli.processes import (
    READY_WITHIN_S,
    Processes,
    check_metrics_port_free,
    check_port_free,
    wait_until_ready,
)
from tonne.db import migrate as migrations
from tonne.db.pool import Database, connect
from tonne.db.session_settings import require_role_settings
from tonne.events.notify import ListenMetrics, listen
from tonne.http.drain import DRAIN_VARIABLE
from tonne.http.metrics_folder import FOLDER_VARIABLE
from tonne.http.shared_buckets import LIMITS_VARIABLE
from tonne.webhooks.check_secret_key import check_secret_key
from tonne.worker.loop import run_jobs, wake_jobs
from tonne.worker.metrics import JobMetrics

# Granian's own log lines, in the same format as ours.
_GRANIAN_LOGS = {
    "handlers": {"json": {"class": "tonne.base.logs.LibraryHandler"}},
    "loggers": {"_granian": {"handlers": ["json"], "propagate": False}},
}
HEADERS_WITHIN_MS = 5_000
BACKLOG = 4096
# Requests in progress per process. Clients that send a body slowly hold one each until the time limit of bodies.
MAX_REQUESTS = 8192
_WITH_PARENT = click.option("--stop-with-parent", "with_parent", is_flag=True, hidden=True)


@click.command()
@click.option("--demo", is_flag=True, help="Apply migrations and create a demo organisation in an empty database.")
def serve(demo: bool) -> None:
    """Run the whole service: database, API and worker. Ctrl-C stops it.

    With --demo, an empty database gets an organisation, keys for both modes, a catalogue and estimates. Their ids and
    keys are also written to demo.json in the data folder, for scripts.
    """
    # Installed before any child starts, so that a signal at any moment leads to an orderly shutdown.
    stopping: list[bool] = []

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.append(True)

    signal.signal(signal.SIGINT, ask_to_stop)
    signal.signal(signal.SIGTERM, ask_to_stop)
    with plain_failures():
        settings = settings_from_environment()
        check_port_free(settings)
        if demo:
            warn_if_reachable(settings)
        with open_database(settings) as url, _metrics_folder(settings):
            facts = asyncio.run(_prepare(url, settings, demo=demo))
            _run_children(settings.database_url or url, settings, facts, stopping)


@contextlib.contextmanager
def _metrics_folder(settings: Settings) -> Iterator[None]:
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


async def _prepare(url: str, settings: Settings, *, demo: bool) -> Demo | None:
    if not demo:
        await _require_ready(url, settings)
        return None
    await with_connection(url, migrations.migrate)
    await _require_ready(url, settings)
    return await with_connection(url, lambda connection: ensure_demo(connection, settings))


async def _require_ready(url: str, settings: Settings) -> None:
    """Raise an error if this release or the secret key does not match the database, or the role has no time limits."""
    if settings.database_pooling == "transaction":
        pooled = await connect(settings.database_url, settings)
        try:
            await require_role_settings(pooled, settings)
        finally:
            await pooled.close()
    await with_connection(url, migrations.require_compatible)
    await with_connection(url, lambda connection: check_secret_key(connection, settings))


def _run_children(url: str, settings: Settings, facts: Demo | None, stopping: list[bool]) -> None:
    processes = Processes(url, settings)
    try:
        processes.start("api")
        processes.start("worker")
        if wait_until_ready(processes, settings, stopping):
            print_demo(settings, facts)
            while not stopping and processes.ended() is None:
                time.sleep(0.2)
    finally:
        ended = processes.ended()
        processes.stop()
    if not stopping and ended is None:
        raise click.ClickException(f"The API was not ready within {READY_WITHIN_S:g} s. Its last log lines say why.")
    if not stopping:
        raise click.ClickException(f"The {ended} process stopped unexpectedly. Its last log lines say why.")
    click.echo("Stopped.")


@click.command()
@_WITH_PARENT
def api(with_parent: bool) -> None:
    """Run an API process. Any number of them can share one database."""
    with plain_failures():
        settings = settings_from_environment()
        configure_logs(settings.log_level, "api")
        if with_parent:
            stop_with_parent()
        else:
            check_port_free(settings)
        with (
            open_database(settings) as url,
            TemporaryDirectory(prefix="tonne-api-") as folder,
            _metrics_folder(settings),
        ):
            asyncio.run(_require_ready(url, settings))
            os.environ[DATABASE_URL_VARIABLE] = settings.database_url or url
            os.environ.pop(DATABASE_URL_VARIABLE + FILE_SUFFIX, None)
            os.environ[DRAIN_VARIABLE] = f"{folder}/draining"
            if settings.api_processes > 1:
                os.environ[LIMITS_VARIABLE] = folder
            server = Server(
                "tonne.app:create_app",
                factory=True,
                address=settings.host,
                port=settings.port,
                interface=Interfaces.ASGI,
                http=HTTPModes.http1,
                http1_settings=HTTP1Settings(header_read_timeout=HEADERS_WITHIN_MS),
                backlog=BACKLOG,
                backpressure=MAX_REQUESTS,
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
    """Make /health/ready fail for a while before the listener closes: load balancers then stop sending requests."""
    stop = server.signal_handler_interrupt

    def drain(*arguments: object) -> None:
        drain_file.touch()
        threading.Timer(drain_s, stop, arguments).start()

    server.signal_handler_interrupt = drain


@click.command()
@_WITH_PARENT
def worker(with_parent: bool) -> None:
    """Run a worker process. Any number of them can share one database."""
    with plain_failures():
        settings = settings_from_environment()
        configure_logs(settings.log_level, "worker")
        if with_parent:
            stop_with_parent()
        else:
            check_metrics_port_free(settings)
        with open_database(settings) as url:
            asyncio.run(_require_ready(url, settings))
            uvloop.run(_work(url, settings))


async def _work(url: str, settings: Settings) -> None:
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
    serving = services.serve_metrics()
    await serving.start()

    listening = asyncio.create_task(listen(url, settings, partial(wake_jobs, jobs), stop, listening_metrics))
    watching = [asyncio.create_task(each.watch()) for each in (services.clock_drift, services.hold, services.reads)]
    freeze_startup_objects()
    await run_jobs(jobs, stop, settings.worker_poll_s, job_metrics, lambda: services.hold.is_held)
    await listening
    for task in watching:
        task.cancel()
    await serving.stop()
    await services.close()
