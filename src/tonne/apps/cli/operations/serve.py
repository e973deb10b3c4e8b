"""tonne serve"""

import signal
import time
from collections.abc import Mapping
from functools import partial
from types import FrameType

import click
import uvloop

from tonne.apps.cli.database import open_database, plain_failures, settings_from_environment, with_connection
from tonne.apps.cli.demo.demo import Demo, ensure_demo, print_demo, warn_if_reachable
from tonne.apps.cli.operations.processes import (
    READY_WITHIN_S,
    Processes,
    check_port_free,
    check_worker_port_free,
    metrics_folder,
    require_ready,
    wait_until_ready,
)
from tonne.apps.cli.progress import bars_on_terminal
from tonne.platform.db.schema import migrate as migrations
from tonne.platform.http.telemetry import require_telemetry
from tonne.platform.process.telemetry.logs import configure_logs
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope


@click.command()
@click.option(
    "--demo",
    type=click.Choice(["full", "empty"]),
    is_flag=False,
    flag_value="full",
    help="Apply migrations and create a demo organisation in an empty database; `--demo=empty`: without its history.",
)
def serve(demo: str | None) -> None:
    """Run the whole service: database, API and worker. Ctrl-C stops it.

    With --demo, an empty database gets an organisation, keys for both modes, a catalogue, estimates, and six customers
    with the orders of twelve months in test mode. Ids and keys are also written to demo.json in the data folder, for
    scripts.
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
            with bars_on_terminal():
                facts = uvloop.run(_prepare(url, settings, demo))
            _run_children(settings.database_url or url, settings, facts, stopping)


async def _prepare(url: str, settings: Settings, demo: str | None) -> Demo | None:
    if demo is None:
        await require_ready(url, settings)
        return None
    await with_connection(url, migrations.migrate)
    await require_ready(url, settings)
    play = partial(_play_history, url, settings) if demo == "full" else None
    return await with_connection(url, lambda connection: ensure_demo(connection, settings, play))


async def _play_history(url: str, settings: Settings, customers: Mapping[str, Scope]) -> None:
    # All of Tonne, which takes a second: not for a demo that has its history.
    from tonne.apps.cli.demo.history import play_history  # noqa: PLC0415

    # Of a year's work, only errors are worth a line.
    configure_logs("error", "demo")
    await play_history(settings.database_url or url, settings, customers)


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
