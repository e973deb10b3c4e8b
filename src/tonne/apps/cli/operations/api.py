"""tonne api"""

import asyncio
import os
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import Server

from tonne.apps.cli.database import open_database, plain_failures, settings_from_environment
from tonne.apps.cli.operations.processes import WITH_PARENT, check_port_free, metrics_folder, require_ready
from tonne.platform.http.drain import DRAIN_VARIABLE
from tonne.platform.http.limits.shared_buckets import LIMITS_VARIABLE
from tonne.platform.http.telemetry import require_telemetry
from tonne.platform.process.parent import stop_with_parent
from tonne.platform.process.telemetry.logs import configure_logs
from tonne.platform.settings.environment import DATABASE_URL_VARIABLE, FILE_SUFFIX

# Granian's own log lines, in the same format as ours.
_GRANIAN_LOGS = {
    "handlers": {"json": {"class": "tonne.platform.process.telemetry.logs.LibraryHandler"}},
    "loggers": {"_granian": {"handlers": ["json"], "propagate": False}},
}
HEADERS_WITHIN_MS = 5_000
BACKLOG = 4096
# Requests in progress per process. Clients that send a body slowly hold one each until the time limit of bodies.
MAX_REQUESTS = 8192


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
