"""Constructs all parts and connects them."""

from tonne.apps.privacy.endpoints import PersonEndpoints
from tonne.apps.privacy.retention.jobs import retention_jobs
from tonne.apps.wiring.dashboard import open_dashboard
from tonne.apps.wiring.listeners import connect_listeners
from tonne.apps.wiring.queues import ALL_QUEUES
from tonne.channels.checkout.checkout_endpoints import CheckoutEndpoints
from tonne.channels.checkout.checkout_page import CheckoutPage
from tonne.channels.checkout.close_checkouts import CloseCheckouts
from tonne.channels.checkout.create_checkout import CreateCheckout
from tonne.channels.checkout.link_counts.counts import LinkCounts
from tonne.channels.checkout.links.endpoints import OffsetLinkEndpoints
from tonne.channels.checkout.links.offset_page import OffsetPage
from tonne.channels.checkout.order_pages.mail_certificates import MailCertificates
from tonne.channels.checkout.order_pages.mail_changed_certificates import MailChangedCertificates
from tonne.channels.checkout.order_pages.order_page import OrderPage
from tonne.channels.checkout.order_pages.receipt_page import ReceiptPage
from tonne.channels.checkout.paying.attempt_limit import AttemptLimit, OpenLimit
from tonne.channels.checkout.paying.consent import WithdrawalTexts
from tonne.channels.checkout.paying.pay_checkout import PayCheckout
from tonne.channels.checkout.paying.payment_lookup import PaymentLookup
from tonne.channels.checkout.paying.unpaid_holds import find_unpaid_holds_any_account
from tonne.channels.public_pages.certificates.certificate_pages import CertificatePages
from tonne.channels.public_pages.endpoints import SustainabilityEndpoints
from tonne.channels.public_pages.public_page import PublicPage
from tonne.channels.public_pages.published_page import PublishedPageEndpoints
from tonne.channels.webhooks.delivery.deliver import Deliverer
from tonne.channels.webhooks.endpoints import WebhookEndpoints
from tonne.channels.webhooks.sending.sender import Sender
from tonne.money.cards.charge_cards import ChargeCards
from tonne.money.cards.endpoints import CardEndpoints
from tonne.money.cards.gateways.card_gateways import card_gateways
from tonne.money.cards.gateways.metered_gateway import GatewayMetrics
from tonne.money.cards.model import RetrySchedule
from tonne.money.cards.stored_cards.card_page import CardPage
from tonne.money.cards.stored_cards.confirm_charge import ConfirmCharge
from tonne.money.cards.stored_cards.mail_card_problems import MailCardProblems
from tonne.money.cards.stored_cards.remove_closed_cards import RemoveClosedCards
from tonne.money.cards.stored_cards.update_card import UpdateCard
from tonne.money.invoices.card_payment.jobs import invoice_charge_jobs
from tonne.money.invoices.card_payment.settle_card_invoice import settle_invoice_charge
from tonne.money.invoices.credit_notes.endpoints import CreditNoteEndpoints
from tonne.money.invoices.credit_notes.mail_credit_notes import MailCreditNotes
from tonne.money.invoices.documents.render_invoice import RenderInvoice
from tonne.money.invoices.endpoints import InvoiceEndpoints
from tonne.money.invoices.follow_up_invoices import FollowUpInvoices
from tonne.money.invoices.issuing.issue_consolidated_invoices import IssueConsolidatedInvoices
from tonne.money.invoices.issuing.issue_invoices import IssueInvoices
from tonne.money.receipts.mail_orders import MailOrders
from tonne.money.refunds.endpoints import RefundEndpoints
from tonne.money.refunds.jobs import refund_jobs
from tonne.platform.db.hold import HoldWatch
from tonne.platform.db.pool import Database
from tonne.platform.db.queues import QueueReader
from tonne.platform.db.replica import Reads
from tonne.platform.db.server.clock_drift import ClockDrift
from tonne.platform.documents.mail.outbox import SendMails
from tonne.platform.documents.mail.send_mail import mail_from_settings
from tonne.platform.events.notify import Notifier
from tonne.platform.http.authenticator import Authenticator
from tonne.platform.http.health import HealthChecks, HealthEndpoints
from tonne.platform.http.limits.fair_share import FairShare
from tonne.platform.http.limits.shared_limits import SharedLimits
from tonne.platform.http.metrics_endpoint import MetricsEndpoint, MetricsServing
from tonne.platform.http.security_txt import SecurityTxtEndpoints
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.keys.signing.keys import SigningKeys
from tonne.platform.keys.signing.sign_documents import SignDocuments
from tonne.platform.process.telemetry.metrics import Metrics
from tonne.platform.settings.settings import Settings
from tonne.platform.values.clock import Clock, utc_now
from tonne.platform.values.scope import Mode
from tonne.platform.web.forms import FormGuard
from tonne.platform.web.render import Renderer
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.logos.account_logo import AccountLogoEndpoints
from tonne.selling.accounts.organisations.activity import ActivityReaders
from tonne.selling.accounts.organisations.manage_endpoints import ManageAccountEndpoints
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.estimates.activity import find_estimate_activity
from tonne.selling.estimates.calculate_estimate import CalculateEstimate
from tonne.selling.estimates.calculated_endpoints import CalculatedEstimateEndpoints
from tonne.selling.estimates.endpoints import EstimateEndpoints
from tonne.selling.estimates.factors.snapshot import Factors
from tonne.selling.estimates.kinds.batch_endpoints import EstimateBatchEndpoints
from tonne.selling.estimates.kinds.kinds import KINDS
from tonne.selling.estimates.purchases.endpoints import TransactionEndpoints
from tonne.selling.estimates.quote_estimate import QuoteEstimate
from tonne.selling.estimates.shipping.endpoints import ShippingEndpoints
from tonne.selling.estimates.shipping.kinds import KINDS as SHIPPING_KINDS
from tonne.selling.orders.analytics.last_order_days import last_order_days
from tonne.selling.orders.endpoints import OrderEndpoints
from tonne.selling.orders.placing.batch_endpoints import BatchEndpoints
from tonne.selling.orders.placing.place_orders import PlaceOrders
from tonne.selling.orders.price_waiting import PriceWaiting
from tonne.selling.orders.quotes.endpoints import QuoteEndpoints
from tonne.selling.orders.quotes.lock_quotes import LockQuotes
from tonne.selling.orders.totals.fold_totals import FoldTotals
from tonne.selling.users.prune_sessions import PruneSessions
from tonne.supply.certificates.credentials.endpoints import CertificateEndpoints
from tonne.supply.certificates.credentials.issue_credential import IssueCredential
from tonne.supply.certificates.credentials.issuer_endpoints import IssuerEndpoints
from tonne.supply.certificates.credentials.render_certificate import RenderCertificate
from tonne.supply.certificates.packs.make_packs import MakeAuditPacks
from tonne.supply.certificates.proofs.read_proofs import prove_consistency
from tonne.supply.retirements.allocate_orders import AllocateOrders
from tonne.supply.retirements.endpoints import RetirementEndpoints
from tonne.supply.retirements.resupply.resupply_orders import ResupplyOrders
from tonne.supply.retirements.retire_test_order import RetireTestOrder
from tonne.supply.stock.holds.holds import ReleaseHolds, hold_for_quote
from tonne.supply.stock.parcels.close_units import CloseUnits
from tonne.supply.stock.vintages import load_vintages_any_account
from tonne.supply.transparency.witnesses import Witnesses

# Packages with templates of pages.
TEMPLATES = [
    *(
        "tonne.supply.transparency",
        "tonne.money.cards",
        "tonne.channels.checkout",
        "tonne.channels.public_pages",
        "tonne.channels.public_pages.site",
    ),
    *("tonne.apps.dashboard", "tonne.apps.workspace", "tonne.apps.backoffice"),
]


class Parts:
    """All parts of a process, connected to one database. `process` is api or worker."""

    def __init__(self, database: Database, settings: Settings, clock: Clock = utc_now, *, process: str = "api") -> None:
        connect_listeners()
        self.clock = clock
        self.database = database
        self.settings = settings
        self.box = SecretBox.from_settings(settings)
        self._open_signing(clock)
        self.witnesses = Witnesses(database, settings, clock, prove_consistency)
        self.security_txt = SecurityTxtEndpoints(settings, clock)
        self.metrics = Metrics(process)
        self.reads = Reads(database, settings)
        self.queues = QueueReader(self.reads.server, ALL_QUEUES)
        self.metrics_endpoint = MetricsEndpoint(self.metrics, self.queues, settings)
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
        self.catalogues = Catalogues(database, settings, load_vintages_any_account, clock)
        self.authenticator = Authenticator(self.directory, settings)
        self.notifier = Notifier(database)
        # Waiting for a share holds no connection, so it may take as long as a statement.
        self.shares = FairShare(max(1, settings.database_connections // 2), settings.statement_timeout_s)
        self._open_orders(clock)
        self._open_estimates(clock)
        gateway_meter = GatewayMetrics()
        self.card_gateways = card_gateways(database, settings, gateway_meter, self.hold)
        schedule = RetrySchedule(settings)
        self.charge_cards = {mode: ChargeCards(database, self.card_gateways, mode, clock, schedule) for mode in Mode}
        self.invoice_charge_jobs = invoice_charge_jobs(database, self.card_gateways, clock, schedule)
        self.refund_jobs = refund_jobs(database, self.card_gateways, clock, schedule)
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
        self.release_holds = ReleaseHolds(database, clock, find_unpaid_holds_any_account)
        retire_test_order = RetireTestOrder(database, clock, settings)
        self.certificates = CertificateEndpoints(database, self.render_certificate, self.issue_credential)
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
        self.mails = SendMails(database, mail_from_settings(settings), settings)
        self._share_limits()
        measured = (self.limits, self.notifier, self.place_orders, gateway_meter, self.mails, self.deliverer.measured)
        for part in (database, self.reads, self.clock_drift, self.hold, *measured):
            self.metrics.add(*part.metrics)

    def _open_signing(self, clock: Clock) -> None:
        """What signs, and the files that are signed."""
        self.signing_keys = SigningKeys(self.database, self.box, self.settings, clock)
        self.sign_documents = SignDocuments(self.signing_keys, self.settings.document_time_stamp_url)
        self.issue_credential = IssueCredential(self.database, self.signing_keys, self.settings)
        self.render_certificate = RenderCertificate(self.database, self.issue_credential, self.sign_documents, clock)
        self.issuer = IssuerEndpoints(self.database, self.signing_keys, clock=clock, settings=self.settings)
        self.render_invoice = RenderInvoice(self.sign_documents)

    def _open_estimates(self, clock: Clock) -> None:
        self.estimates = EstimateEndpoints(self.database, self.catalogues, self.directory, clock=clock)
        self.factors = Factors(self.database, self.settings)
        quotes = QuoteEstimate(self.catalogues, self.directory)
        self.calculate_estimate = CalculateEstimate(self.database, self.factors, quotes, clock)
        self.calculated_estimates = CalculatedEstimateEndpoints(self.calculate_estimate, quotes)
        self.estimate_batches = EstimateBatchEndpoints(
            self.calculate_estimate,
            self.calculated_estimates,
            (*KINDS, *SHIPPING_KINDS),
            charge=self.authenticator.charge,
        )
        self.shipping = ShippingEndpoints(self.database, self.calculated_estimates, self.factors)
        self.transactions = TransactionEndpoints(
            self.database, self.catalogues, self.calculate_estimate, quotes, charge=self.authenticator.charge
        )

    def _open_orders(self, clock: Clock) -> None:
        database, settings = self.database, self.settings
        self.place_orders = PlaceOrders(
            database,
            self.catalogues,
            self.directory,
            clock=clock,
            settings=settings,
            notifier=self.notifier,
            shares=self.shares,
        )
        self.orders = OrderEndpoints(database, self.catalogues, self.directory, self.place_orders)
        self.lock_quotes = LockQuotes(
            database,
            self.catalogues,
            self.directory,
            clock=clock,
            settings=settings,
            shares=self.shares,
            hold_supply=hold_for_quote,
        )
        self.quotes = QuoteEndpoints(database, self.lock_quotes, clock)
        self.order_batches = BatchEndpoints(self.place_orders, self.directory, self.authenticator.charge)
        self.price_waiting = PriceWaiting(database, self.catalogues, clock, settings)

    def _share_limits(self) -> None:
        self.limits = SharedLimits(self.database)
        pages = (self.certificate_pages, self.offset_page, self.checkout_page, self.order_page, self.card_page)
        others = (self.authenticator, self.payment_lookup, self.dashboard.pages.sign_in, self.receipt_page)
        for part in (*others, self.public_page.exports, self.public_page.openings, *pages):
            self.limits.add(part.limits)

    def _open_invoices(self, clock: Clock) -> None:
        database, settings = self.database, self.settings
        self.issue_invoices = IssueInvoices(database, clock, settings)
        self.issue_consolidated_invoices = IssueConsolidatedInvoices(database, clock, settings)
        self.follow_up_invoices = FollowUpInvoices(database, clock, settings, self.render_invoice)
        self.mail_credit_notes = MailCreditNotes(database, clock, settings, self.render_invoice)
        self.mail_orders = MailOrders(database, clock, settings, self.render_invoice)
        self.credit_notes = CreditNoteEndpoints(database, self.render_invoice)
        self.persons = PersonEndpoints(database, clock, self.notifier)
        self.invoices = InvoiceEndpoints(
            database, self.render_invoice, clock=clock, settings=settings, notifier=self.notifier
        )

    def _open_pages(self, clock: Clock) -> None:
        """The parts behind HTML pages."""
        database, settings = self.database, self.settings
        self.renderer = Renderer(settings, TEMPLATES)
        self.form_guard = FormGuard(settings)
        self.manage_accounts = ManageAccountEndpoints(
            database,
            self.directory,
            ActivityReaders(last_order_days, find_estimate_activity),
            clock=clock,
            settings=settings,
        )
        self.account_logos = AccountLogoEndpoints(database, clock=clock, settings=settings)
        self.sustainability = SustainabilityEndpoints(database, clock=clock, settings=settings)
        self.public_page = PublicPage(self.reads, self.catalogues, self.renderer, clock=clock, settings=settings)
        self.published_page = PublishedPageEndpoints(self.reads, self.catalogues, self.directory, settings)
        self.mail_certificates = MailCertificates(database, self.render_certificate, clock, settings)
        self.mail_changed_certificates = MailChangedCertificates(database, self.render_certificate, clock, settings)
        self.certificate_pages = CertificatePages(
            database, self.renderer, self.render_certificate, self.issue_credential, settings=settings
        )
        self.close_checkouts = CloseCheckouts(database, clock)
        self.payment_lookup = PaymentLookup(database, clock=clock, settings=settings)
        self.link_counts = LinkCounts(database, clock)
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
            counts=self.link_counts,
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
            withdrawal=WithdrawalTexts(settings),
            payment_limit=AttemptLimit(settings, "pay_checkout"),
            certificate_limit=AttemptLimit(settings, "checkout_certificate"),
            certificates=self.render_certificate,
            counts=self.link_counts,
        )

    def _open_card_pages(self, clock: Clock) -> None:
        """The pages that links in mails lead to, the mails about cards, and the dashboard."""
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
            certificates=self.render_certificate,
        )
        self.receipt_page = ReceiptPage(
            database=database,
            renderer=self.renderer,
            settings=settings,
            pdf_limit=AttemptLimit(settings, "order_receipt"),
        )
        self.prune_sessions = PruneSessions(database, clock)
        self.make_audit_packs = MakeAuditPacks(database, self.render_certificate, clock)
        self.retention_jobs = retention_jobs(database, clock, settings)
        self.fold_totals = FoldTotals(database)
        self.dashboard = open_dashboard(
            database, self.renderer, self.form_guard, self.box, clock=clock, settings=settings
        )

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
