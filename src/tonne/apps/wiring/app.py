"""The composition root: the parts with their routes and jobs, and the HTTP application."""

import asyncio
import contextlib
import os
import sys

import structlog

from tonne.apps.wiring.jobs import all_jobs
from tonne.apps.wiring.pages import operator_sections, organisation_sections
from tonne.apps.wiring.parts import Parts
from tonne.apps.wiring.routes import all_routes, section_routes
from tonne.platform.db.database import Database
from tonne.platform.db.errors import log_outage
from tonne.platform.http.asgi import AsgiApp
from tonne.platform.http.middleware import RequestMiddleware
from tonne.platform.http.request_log.log import RequestLog
from tonne.platform.http.route import Route
from tonne.platform.http.server import Application
from tonne.platform.http.telemetry import start_telemetry, stop_telemetry
from tonne.platform.http.traced_app import TracedApp
from tonne.platform.jobs.loop import Job
from tonne.platform.keys.replays.respond_once import RespondOnce
from tonne.platform.process.memory import freeze_startup_objects
from tonne.platform.process.parent import stop_with_parent
from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.logs import configure_logs
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, utc_now
from tonne.selling.accounts.organisations.client_account import ActForClient

# How often the last-used times of API keys are written.
WRITE_USES_EVERY_S = 2.0

_log = structlog.get_logger()


class Services(Parts):
    def __init__(self, database: Database, settings: Settings, clock: Clock = utc_now, *, process: str = "api") -> None:
        super().__init__(database, settings, clock, process=process)
        self.request_log = RequestLog(database, clock, is_on=settings.request_log)
        self.metrics.add(*self.request_log.metrics, *self.link_counts.metrics)
        self.organisation_sections = organisation_sections(self)
        self.operator_sections = operator_sections(self)
        for section in (*self.organisation_sections, *self.operator_sections):
            self.limits.add(section.limits)

    def routes(self) -> list[Route]:
        return [*all_routes(self), *section_routes(self, self.organisation_sections, self.operator_sections)]

    def jobs(self) -> list[Job]:
        return all_jobs(self)

    async def write_uses_for_ever(self) -> None:
        while True:
            await asyncio.sleep(WRITE_USES_EVERY_S)
            await self.write_uses()

    async def write_uses(self) -> None:
        try:
            await self.directory.write_uses()
        except Exception as error:  # noqa: BLE001 - losing some times is harmless; ending the loop or the stop is not
            if not log_outage(error):
                _log.exception("key_uses_not_written")


def build_app(services: Services) -> AsgiApp:
    """The HTTP application. It opens the database when the server starts and closes it when the server stops."""
    background: list[asyncio.Task[None]] = []
    serving = services.serve_metrics(services.health)

    async def start() -> None:
        await services.database.open()
        await services.hold.refresh()
        await serving.start()
        watched = (services.clock_drift, services.hold, services.reads, services.limits)
        written = (services.request_log, services.link_counts)
        watches = (services.write_uses_for_ever(), *(each.watch() for each in (*watched, *written)))
        background.extend(asyncio.create_task(work) for work in watches)
        freeze_startup_objects()

    async def stop() -> None:
        for task in background:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await services.place_orders.drain()
        await services.lock_quotes.drain()
        await services.write_uses()
        await services.request_log.write()
        await services.link_counts.write()
        await services.limits.settle()
        await serving.stop()
        await services.webhooks.close()
        await services.close()
        await asyncio.to_thread(stop_telemetry)

    settings = services.settings
    app = Application(
        services.routes(),
        services.authenticator,
        services.admission,
        hold=services.hold,
        respond_once=RespondOnce(services.database, services.box, services.clock),
        act_for_client=ActForClient(services.manage_accounts),
        start=start,
        stop=stop,
        show_error=services.renderer.error,
    )
    traced = TracedApp(app, services.authenticator.client_address, settings) if tracing.is_on() else app
    return RequestMiddleware(traced, services.metrics, settings, services.request_log)


def create_app() -> AsgiApp:
    """Called in each server process. `tonne api` has set TONNE_DATABASE_URL."""
    settings = load_settings(os.environ)
    configure_logs(settings.log_level, "api")
    stop_with_parent()
    # Until the event loop gets the interpreter back from a thread that computes.
    sys.setswitchinterval(0.001)
    start_telemetry(settings, "api")
    return build_app(Services(Database(settings.database_url, settings), settings))
