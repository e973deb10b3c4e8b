"""tonne worker"""

import asyncio
import contextlib
import signal
from functools import partial

import click
import uvloop

from tonne.apps.cli.database import open_database, plain_failures, settings_from_environment
from tonne.apps.cli.operations import processes
from tonne.platform.db.database import Database
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.events.notification import ListenMetrics, listen
from tonne.platform.http.telemetry import start_telemetry, stop_telemetry
from tonne.platform.jobs.health import WorkerHealth
from tonne.platform.jobs.loop import run_jobs, wake_jobs
from tonne.platform.jobs.metrics import JobMetrics
from tonne.platform.jobs.report_jobs import JobReports
from tonne.platform.process.memory import freeze_startup_objects
from tonne.platform.process.parent import stop_with_parent
from tonne.platform.process.telemetry.logs import configure_logs
from tonne.platform.settings.settings import Settings


@click.command()
@processes.WITH_PARENT
def worker(with_parent: bool) -> None:
    """Run a worker process. Any number of them can share one database."""
    with plain_failures():
        settings = settings_from_environment()
        configure_logs(settings.log_level, "worker")
        if with_parent:
            stop_with_parent()
        else:
            processes.check_metrics_port_free(settings)
            processes.check_worker_port_free(settings)
        start_telemetry(settings, "worker")
        try:
            with open_database(settings) as url:
                asyncio.run(processes.require_ready(url, settings))
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
