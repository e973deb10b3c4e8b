"""The composition root: constructs all parts and connects them."""

import asyncio
import contextlib
import os
from pathlib import Path

import structlog

from tonne.accounts.audit_endpoints import AuditEndpoints, audit_routes
from tonne.accounts.directory import AccountDirectory
from tonne.accounts.endpoints import AccountEndpoints, account_routes
from tonne.accounts.tax_endpoints import TaxEndpoints, tax_routes
from tonne.base.clock import Clock, utc_now
from tonne.base.logs import configure_logs
from tonne.base.memory import freeze_startup_objects
from tonne.base.parent import stop_with_parent
from tonne.base.scope import Mode
from tonne.base.secret_box import SecretBox
from tonne.base.settings import Settings, load_settings
from tonne.cards.card_page import CardPage
from tonne.cards.charge_cards import ChargeCards
from tonne.cards.confirm_charge import ConfirmCharge
from tonne.cards.endpoints import CardEndpoints
from tonne.cards.mail_card_problems import MailCardProblems
from tonne.cards.model import RetrySchedule
from tonne.cards.remove_closed_cards import RemoveClosedCards
from tonne.cards.routes import card_page_routes, card_routes, gateway_routes
from tonne.cards.update_card import UpdateCard
from tonne.catalog.endpoints import CatalogueEndpoints
from tonne.catalog.snapshot import Catalogues
from tonne.checkout.attempt_limit import AttemptLimit, OpenLimit
from tonne.checkout.checkout_endpoints import CheckoutEndpoints
from tonne.checkout.checkout_page import CheckoutPage
from tonne.checkout.close_checkouts import CloseCheckouts
from tonne.checkout.create_checkout import CreateCheckout
from tonne.checkout.link_endpoints import OffsetLinkEndpoints
from tonne.checkout.mail_certificates import MailCertificates
from tonne.checkout.mail_changed_certificates import MailChangedCertificates
from tonne.checkout.offset_page import OffsetPage
from tonne.checkout.order_page import OrderPage
from tonne.checkout.pay_checkout import PayCheckout
from tonne.checkout.payment_lookup import PaymentLookup
from tonne.checkout.routes import (
    api_checkout_routes,
    checkout_routes,
    link_routes,
    order_page_routes,
    payment_routes,
)
from tonne.db.clock_drift import ClockDrift
from tonne.db.hold import HoldWatch
from tonne.db.pool import Database
from tonne.db.queues import QueueReader
from tonne.db.replica import Reads
from tonne.estimates.endpoints import EstimateEndpoints
from tonne.events.endpoints import EventEndpoints
from tonne.events.notify import Notifier
from tonne.gateways.card_gateways import card_gateways
from tonne.gateways.mail import mail_from_settings
from tonne.gateways.metered_gateway import GatewayMetrics
from tonne.gateways.outbox import SendMails
from tonne.http.asgi import AsgiApp
from tonne.http.authenticator import Authenticator
from tonne.http.docs import DocsEndpoints
from tonne.http.fair_share import FairShare
from tonne.http.health import HealthEndpoints
from tonne.http.lists import ListOut
from tonne.http.metrics import Metrics
from tonne.http.metrics_endpoint import MetricsEndpoint, MetricsPort, MetricsServing
from tonne.http.metrics_folder import FOLDER_VARIABLE
from tonne.http.middleware import RequestMiddleware
from tonne.http.openapi import openapi_document
from tonne.http.route import Route
from tonne.http.security_txt import SecurityTxtEndpoints
from tonne.http.server import Application
from tonne.invoices.credit_note_endpoints import CreditNoteEndpoints, credit_note_routes
from tonne.invoices.endpoints import InvoiceEndpoints, invoice_routes
from tonne.invoices.follow_up_invoices import FollowUpInvoices
from tonne.invoices.issue_consolidated_invoices import IssueConsolidatedInvoices
from tonne.invoices.issue_invoices import IssueInvoices
from tonne.invoices.jobs import invoice_charge_jobs
from tonne.invoices.mail_credit_notes import MailCreditNotes
from tonne.invoices.settle_card_invoice import settle_invoice_charge
from tonne.orders.endpoints import OrderEndpoints
from tonne.orders.place_orders import PlaceOrders
from tonne.orders.price_waiting import PriceWaiting
from tonne.orders.routes import order_routes
from tonne.refunds.endpoints import RefundEndpoints
from tonne.refunds.jobs import refund_jobs
from tonne.refunds.routes import refund_routes
from tonne.retirements.allocate_orders import AllocateOrders
from tonne.retirements.close_units import CloseUnits
from tonne.retirements.endpoints import RetirementEndpoints
from tonne.retirements.holds import ReleaseHolds
from tonne.retirements.resupply_orders import ResupplyOrders
from tonne.retirements.retire_test_order import RetireTestOrder
from tonne.retirements.routes import retirement_routes
from tonne.sustainability.certificate_pages import CertificatePages
from tonne.sustainability.endpoints import SustainabilityEndpoints
from tonne.sustainability.public_page import PublicPage
from tonne.sustainability.routes import certificate_routes, public_page_routes, sustainability_routes
from tonne.web.assets import asset_routes
from tonne.web.forms import FormGuard
from tonne.web.render import Renderer
from tonne.webhooks.deliver import Deliverer
from tonne.webhooks.endpoints import WebhookEndpoints
from tonne.webhooks.event_schemas import WEBHOOKS, WebhookEvent
from tonne.webhooks.prune_attempts import PruneAttempts
from tonne.webhooks.routes import webhook_routes
from tonne.webhooks.sender import Sender
from tonne.worker.loop import Job, throttled
from tonne.worker.queues import ALL_QUEUES
from tonne.worker.wakeups import connect_jobs

# How often the last-used times of API keys are written.
WRITE_USES_EVERY_S = 2.0
PRUNE_EVERY_S = 300.0
# Closing checkouts and mailing certificates is not urgent: not on every notification.
CHECKOUTS_EVERY_S = 2.0
# Refunds are not urgent either.
REFUNDS_EVERY_S = 2.0

_log = structlog.get_logger()


class Services:
    """All parts of a process, connected to one database. `process` is api or worker."""

    def __init__(self, database: Database, settings: Settings, clock: Clock = utc_now, *, process: str = "api") -> None:
        self.database = database
        self.settings = settings
        self.box = SecretBox.from_settings(settings)
        self.security_txt = SecurityTxtEndpoints(settings, clock)
        self.metrics = Metrics(process)
        self.reads = Reads(database, settings)
        self.metrics_endpoint = MetricsEndpoint(self.metrics, QueueReader(self.reads.server, ALL_QUEUES), settings)
        self.hold = HoldWatch(database)
        self.health = HealthEndpoints(database, self.hold)
        self.clock_drift = ClockDrift(database)
        self.directory = AccountDirectory(
            database,
            clock,
            settings.key_refresh_s,
            seller_tax=settings.seller_tax,
            minimum_orders=settings.minimum_orders,
        )
        self.catalogues = Catalogues(database, settings, clock)
        self.authenticator = Authenticator(self.directory, settings)
        self.notifier = Notifier(database)
        # Waiting for a share holds no connection, so it may take as long as a statement.
        self.shares = FairShare(max(1, settings.database_connections // 2), settings.statement_timeout_s)
        self.place_orders = PlaceOrders(
            *(database, self.catalogues, self.directory),
            clock=clock,
            settings=settings,
            notifier=self.notifier,
            shares=self.shares,
        )
        self.orders = OrderEndpoints(database, self.catalogues, self.directory, self.place_orders)
        self.estimates = EstimateEndpoints(database, self.catalogues, self.directory, clock=clock)
        self.price_waiting = PriceWaiting(database, self.catalogues, clock, settings)
        gateway_meter = GatewayMetrics()
        self.card_gateways = card_gateways(database, settings, gateway_meter, self.hold)
        schedule = RetrySchedule(settings)
        self.charge_cards = {
            mode: ChargeCards(database, self.card_gateways, mode, clock, schedule, settings) for mode in Mode
        }
        self.invoice_charge_jobs = invoice_charge_jobs(database, self.card_gateways, clock, schedule, settings)
        self.refund_jobs = refund_jobs(database, self.card_gateways, clock, schedule, settings)
        self.refunds = RefundEndpoints(database, clock=clock, settings=settings, notifier=self.notifier)
        self.remove_closed_cards = RemoveClosedCards(database, self.card_gateways, clock)
        self._open_invoices(clock)
        self.cards = CardEndpoints(database, self.card_gateways, clock=clock, settings=settings, notifier=self.notifier)
        self.offset_links = OffsetLinkEndpoints(
            database, self.catalogues, self.directory, clock=clock, settings=settings, box=self.box
        )
        self.allocate_orders = AllocateOrders(database, clock, settings)
        self.close_units = CloseUnits(database, clock, settings)
        self.resupply_orders = ResupplyOrders(database, clock, settings)
        self.release_holds = ReleaseHolds(database, clock)
        retire_test_order = RetireTestOrder(database, clock, settings)
        self.retirements = RetirementEndpoints(
            database, retire_test_order, self.directory, clock=clock, settings=settings, notifier=self.notifier
        )
        create_checkout = CreateCheckout(
            database, self.catalogues, self.directory, clock=clock, settings=settings, box=self.box
        )
        self.checkouts = CheckoutEndpoints(database, create_checkout, clock=clock, settings=settings, box=self.box)
        self._open_pages(clock)
        self._open_card_pages(clock)
        self.webhooks = WebhookEndpoints(database, self.box, clock=clock, settings=settings)
        self.deliverer = Deliverer(database, lambda: Sender(settings), self.box, settings)
        self.prune_attempts = PruneAttempts(database, settings)
        self.mails = SendMails(database, mail_from_settings(settings), settings)
        measured = (self.notifier, self.place_orders, gateway_meter, self.mails, self.deliverer.measured)
        for part in (database, self.reads, self.clock_drift, self.hold, *measured):
            self.metrics.add(*part.metrics)

    def _open_invoices(self, clock: Clock) -> None:
        database, settings = self.database, self.settings
        self.issue_invoices = IssueInvoices(database, clock, settings)
        self.issue_consolidated_invoices = IssueConsolidatedInvoices(database, clock, settings)
        self.follow_up_invoices = FollowUpInvoices(database, clock, settings)
        self.mail_credit_notes = MailCreditNotes(database, clock, settings)
        self.credit_notes = CreditNoteEndpoints(database)
        self.invoices = InvoiceEndpoints(database, clock=clock, settings=settings, notifier=self.notifier)

    def _open_pages(self, clock: Clock) -> None:
        """The parts behind HTML pages."""
        database, settings = self.database, self.settings
        self.renderer = Renderer(settings, ["tonne.cards", "tonne.checkout", "tonne.sustainability"])
        self.form_guard = FormGuard(settings)
        self.sustainability = SustainabilityEndpoints(database, clock=clock, settings=settings)
        self.public_page = PublicPage(self.reads, self.catalogues, self.renderer, clock=clock, settings=settings)
        self.mail_certificates = MailCertificates(database, clock, settings)
        self.mail_changed_certificates = MailChangedCertificates(database, clock, settings)
        self.certificate_pages = CertificatePages(database, self.renderer, clock=clock, settings=settings)
        self.close_checkouts = CloseCheckouts(database, clock)
        self.payment_lookup = PaymentLookup(database, clock=clock, settings=settings)
        self.offset_page = OffsetPage(
            database=database,
            catalogues=self.catalogues,
            directory=self.directory,
            renderer=self.renderer,
            guard=self.form_guard,
            clock=clock,
            settings=settings,
            box=self.box,
            begin_limit=AttemptLimit(settings, "begin_checkout"),
            open_limit=OpenLimit(settings),
        )
        pay = PayCheckout(
            database,
            self.card_gateways,
            self.catalogues,
            self.directory,
            clock=clock,
            settings=settings,
            notifier=self.notifier,
        )
        self.checkout_page = CheckoutPage(
            database=database,
            renderer=self.renderer,
            guard=self.form_guard,
            clock=clock,
            payment=pay,
            payment_limit=AttemptLimit(settings, "pay_checkout"),
            certificate_limit=AttemptLimit(settings, "checkout_certificate"),
        )

    def _open_card_pages(self, clock: Clock) -> None:
        """The pages that links in mails lead to, and the mails about cards."""
        database, settings = self.database, self.settings
        parts = (database, self.card_gateways, clock, settings, self.notifier)
        self.update_card = UpdateCard(*parts)
        self.mail_card_problems = MailCardProblems(database, clock, settings, self.box)
        self.card_page = CardPage(
            database, self.renderer, self.form_guard, self.update_card, clock=clock, settings=settings
        )
        self.order_page = OrderPage(
            database=database,
            renderer=self.renderer,
            guard=self.form_guard,
            clock=clock,
            settings=settings,
            confirmation=ConfirmCharge(*parts, settle_invoice_charge),
            confirm_limit=AttemptLimit(settings, "confirm_payment"),
            certificate_limit=AttemptLimit(settings, "order_certificate"),
        )

    def serve_metrics(self) -> MetricsServing:
        """With a shared folder, an api process serves the metrics of all; without one, each process its own."""
        shared = os.environ.get(FOLDER_VARIABLE)
        port = None
        if self.settings.metrics_port and (shared is None or self.metrics.process == "api"):
            port = MetricsPort(self.settings, self.metrics_endpoint, self.health)
        return MetricsServing(self.metrics_endpoint, port, None if shared is None else Path(shared))

    async def close(self) -> None:
        await self.health.close()
        for gateway in self.card_gateways.values():
            await gateway.close()
        await self.reads.close()
        await self.database.close()

    def routes(self) -> list[Route]:
        catalogue = CatalogueEndpoints(self.catalogues, self.directory)
        api = [
            *order_routes(self.orders),
            *card_routes(self.cards),
            *invoice_routes(self.invoices),
            *credit_note_routes(self.credit_notes),
            *refund_routes(self.refunds),
            *link_routes(self.offset_links),
            *api_checkout_routes(self.checkouts),
            *payment_routes(self.payment_lookup),
            *retirement_routes(self.retirements),
            *sustainability_routes(self.sustainability),
            *self.estimates.routes(),
            *catalogue.routes(),
            *webhook_routes(self.webhooks),
            *EventEndpoints(self.database).routes(WebhookEvent, ListOut[WebhookEvent]),
            *account_routes(AccountEndpoints(self.database)),
            *tax_routes(TaxEndpoints(self.database, self.settings)),
            *audit_routes(AuditEndpoints(self.database)),
        ]
        return [
            *api,
            *gateway_routes(self.cards),
            *catalogue.page_routes(),
            *asset_routes(),
            *public_page_routes(self.public_page, self.renderer),
            *certificate_routes(self.certificate_pages, self.renderer),
            *checkout_routes(self.offset_page, self.checkout_page, self.renderer),
            *order_page_routes(self.order_page, self.renderer),
            *card_page_routes(self.card_page, self.renderer),
            *self.health.routes(),
            *self.security_txt.routes(),
            *DocsEndpoints(lambda: openapi_document(api, self.settings, WEBHOOKS)).routes(),
            *self.metrics_endpoint.routes(),
        ]

    def jobs(self) -> list[Job]:
        deliver = self.deliverer
        jobs = [
            Job("price_waiting_orders", self.price_waiting.run_once),
            *(Job(f"charge_{mode}_cards", charge.run_once, charge.drain) for mode, charge in self.charge_cards.items()),
            *(Job(name, run) for name, run in self.invoice_charge_jobs.items()),
            *(Job(name, throttled(run, REFUNDS_EVERY_S)) for name, run in self.refund_jobs.items()),
            Job("remove_closed_cards", throttled(self.remove_closed_cards.run_once, CHECKOUTS_EVERY_S)),
            Job("issue_invoices", self.issue_invoices.run_once),
            Job("issue_consolidated_invoices", self.issue_consolidated_invoices.run_once),
            Job("follow_up_invoices", self.follow_up_invoices.run_once),
            Job("mail_credit_notes", self.mail_credit_notes.run_once),
            Job("allocate_orders", self.allocate_orders.run_once),
            Job("close_checkouts", throttled(self.close_checkouts.run_once, CHECKOUTS_EVERY_S)),
            Job("close_units", self.close_units.run_once),
            Job("resupply_orders", throttled(self.resupply_orders.run_once, CHECKOUTS_EVERY_S)),
            Job("release_holds", throttled(self.release_holds.run_once, CHECKOUTS_EVERY_S)),
            Job("deliver_webhooks", deliver.run_once, deliver.drain, wake=deliver.more_due, expect=deliver.expect),
            Job("mail_certificates", throttled(self.mail_certificates.run_once, CHECKOUTS_EVERY_S)),
            Job("mail_changed_certificates", throttled(self.mail_changed_certificates.run_once, CHECKOUTS_EVERY_S)),
            Job("mail_card_problems", self.mail_card_problems.run_once),
            Job("update_cards", throttled(self.update_card.run_once, CHECKOUTS_EVERY_S)),
            Job("send_mails", self.mails.run_once),
            Job("prune_attempts", throttled(self.prune_attempts.run_once, PRUNE_EVERY_S)),
        ]
        return connect_jobs(jobs, self.notifier)

    async def write_uses_for_ever(self) -> None:
        while True:
            await asyncio.sleep(WRITE_USES_EVERY_S)
            await self.write_uses()

    async def write_uses(self) -> None:
        try:
            await self.directory.write_uses()
        except Exception:  # noqa: BLE001 - losing some of these times is harmless; ending the loop or the stop is not
            _log.exception("key_uses_not_written")


def build_app(services: Services) -> AsgiApp:
    """The HTTP application. It opens the database when the server starts and closes it when the server stops."""
    background: list[asyncio.Task[None]] = []
    serving = services.serve_metrics()

    async def start() -> None:
        await services.database.open()
        await services.hold.refresh()
        await serving.start()
        watched = (services.clock_drift, services.hold, services.reads)
        watches = (services.write_uses_for_ever(), *(each.watch() for each in watched))
        background.extend(asyncio.create_task(work) for work in watches)
        freeze_startup_objects()

    async def stop() -> None:
        for task in background:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await services.place_orders.drain()
        await services.write_uses()
        await serving.stop()
        await services.webhooks.close()
        await services.close()

    settings = services.settings
    app = Application(
        services.routes(), services.authenticator, services.shares, hold=services.hold, start=start, stop=stop
    )
    return RequestMiddleware(app, services.metrics, settings)


def create_app() -> AsgiApp:
    """Called in each server process. `tonne api` has set TONNE_DATABASE_URL."""
    settings = load_settings(os.environ)
    configure_logs(settings.log_level, "api")
    stop_with_parent()
    return build_app(Services(Database(settings.database_url, settings), settings))
