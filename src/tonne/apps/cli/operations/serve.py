"""tonne serve"""

import asyncio
import signal
import time
from types import FrameType

import click

from tonne.apps.cli.database import open_database, plain_failures, settings_from_environment, with_connection
from tonne.apps.cli.operations.demo import Demo, ensure_demo, print_demo, warn_if_reachable
from tonne.apps.cli.operations.processes import (
    READY_WITHIN_S,
    Processes,
    check_port_free,
    check_worker_port_free,
    metrics_folder,
    require_ready,
    wait_until_ready,
)
from tonne.platform.db.schema import migrate as migrations
from tonne.platform.http.telemetry import require_telemetry
from tonne.platform.settings.settings import Settings


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
        require_telemetry(settings)
        check_port_free(settings)
        check_worker_port_free(settings)
        if demo:
            warn_if_reachable(settings)
        with open_database(settings) as url, metrics_folder(settings):
            facts = asyncio.run(_prepare(url, settings, demo=demo))
            _run_children(settings.database_url or url, settings, facts, stopping)


async def _prepare(url: str, settings: Settings, *, demo: bool) -> Demo | None:
    if not demo:
        await require_ready(url, settings)
        return None
    await with_connection(url, migrations.migrate)
    await require_ready(url, settings)
    return await with_connection(url, lambda connection: ensure_demo(connection, settings))


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
