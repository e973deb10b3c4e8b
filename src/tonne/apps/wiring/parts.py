"""Constructs all parts and connects them."""

from tonne.apps.dashboard.layout import PageLayout
from tonne.apps.privacy.endpoints import PersonEndpoints
from tonne.apps.privacy.retention.jobs import retention_jobs
from tonne.apps.wiring.channel_parts import ChannelParts
from tonne.apps.wiring.dashboard import open_dashboard
from tonne.apps.wiring.listeners import connect_listeners
from tonne.platform.db.database import Database
from tonne.platform.events.notification import Notifier
from tonne.platform.http.health import HealthChecks
from tonne.platform.http.limits.shared_limits import SharedLimits
from tonne.platform.http.metrics_endpoint import MetricsServing
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, utc_now


class Parts(ChannelParts):
    """All parts of a process, connected to one database.

    There is a class for each area, in the order of the areas: a part can be given only those that were made before it.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock = utc_now, *, process: str = "api") -> None:
        connect_listeners()
        super().__init__(database, settings, clock, process=process)
        self.persons = PersonEndpoints(database, clock, self.notifier)
        self.retention_jobs = retention_jobs(database, clock, settings)
        self.dashboard = open_dashboard(
            database, self.renderer, self.form_guard, self.box, clock=clock, settings=settings
        )
        self._share_limits()
        measured = (
            self.limits,
            self.notifier,
            self.place_orders,
            self.gateway_meter,
            self.release_holds,
            self.check_registries,
            self.checkout_page.payment,
            self.mails,
            self.deliverer.measured,
        )
        for part in (database, self.reads, self.clock_drift, self.hold, self.machine, *measured):
            self.metrics.add(*part.metrics)

    @property
    def page(self) -> tuple[Database, PageLayout, Clock, Settings, Notifier]:
        """What a page of the dashboard works with."""
        return self.database, self.dashboard.layout, self.clock, self.settings, self.notifier

    def _share_limits(self) -> None:
        self.limits = SharedLimits(self.database)
        pages = (
            self.certificate_pages,
            self.offset_page,
            self.checkout_page,
            self.order_page,
            self.find_orders,
            self.card_page,
        )
        others = (self.authenticator, self.payment_lookup, self.dashboard.pages.sign_in, self.receipt_page)
        for part in (*others, self.public_page.exports, self.public_page.openings, *pages):
            self.limits.add(part.limits)

    def serve_metrics(self, checks: HealthChecks) -> MetricsServing:
        return MetricsServing.of(self.metrics.process, self.metrics_endpoint, checks, self.settings)

    async def close(self) -> None:
        await self.health.close()
        await self.queues.close()
        for gateway in self.card_gateways.values():
            await gateway.close()
        await self.witnesses.close()
        await self.reads.close()
        await self.database.close()
