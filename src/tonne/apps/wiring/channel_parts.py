"""The parts of `channels`."""

from functools import partial

from tonne.apps.wiring.money_parts import MoneyParts
from tonne.channels.checkout.checkout_endpoints import CheckoutEndpoints
from tonne.channels.checkout.checkout_page import CheckoutPage
from tonne.channels.checkout.create_checkout import CreateCheckout
from tonne.channels.checkout.link_counts.counts import LinkCounts
from tonne.channels.checkout.links.endpoints import OffsetLinkEndpoints
from tonne.channels.checkout.links.offset_page import OffsetPage
from tonne.channels.checkout.order_checkout import CloseCheckouts
from tonne.channels.checkout.order_pages.certificate_mails import MailCertificates, MailChangedCertificates
from tonne.channels.checkout.order_pages.find_orders import FindOrdersPage, MailOrderLinks
from tonne.channels.checkout.order_pages.order_page import OrderPage, ReceiptPage
from tonne.channels.checkout.paying.attempt_limit import AttemptLimit, OpenLimit
from tonne.channels.checkout.paying.consent import WithdrawalTexts
from tonne.channels.checkout.paying.pay_checkout import PayCheckout
from tonne.channels.checkout.paying.payment_lookup import PaymentLookup
from tonne.channels.checkout.paying.simulated_bank import SimulatedBank
from tonne.channels.public_pages.certificates.certificate_pages import CertificatePages
from tonne.channels.public_pages.endpoints import PublishedPageEndpoints, SustainabilityEndpoints
from tonne.channels.public_pages.project_page import ProjectPage
from tonne.channels.public_pages.public_page import PublicPage
from tonne.channels.webhooks.delivery.deliver import Deliverer
from tonne.channels.webhooks.endpoints import WebhookEndpoints
from tonne.channels.webhooks.sending.sender import Sender, post_once
from tonne.money.cards.stored_cards.confirm_charge import ConfirmCharge
from tonne.money.invoices.card_payment.settle_card_invoice import settle_invoice_charge
from tonne.money.invoices.documents.seller_details import vat_id_of
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, utc_now
from tonne.selling.accounts.tax.check_vat_ids import CheckVatIds
from tonne.selling.accounts.tax.vat_checks import VatRegister
from tonne.selling.accounts.tax.vies import Vies


class ChannelParts(MoneyParts):
    def __init__(self, database: Database, settings: Settings, clock: Clock = utc_now, *, process: str = "api") -> None:
        super().__init__(database, settings, clock, process=process)
        self.webhooks = WebhookEndpoints(database, self.box, clock=clock, settings=settings)
        self.deliverer = Deliverer(database, lambda: Sender(settings), self.box, settings)
        self.sustainability = SustainabilityEndpoints(database, clock=clock, settings=settings)
        self.public_page = PublicPage(self.reads, self.catalogues, self.renderer, clock=clock, settings=settings)
        self.project_page = ProjectPage(self.reads, self.catalogues, self.renderer, clock)
        self.published_page = PublishedPageEndpoints(self.reads, self.catalogues, self.directory, settings)
        self.certificate_pages = CertificatePages(
            database,
            self.renderer,
            self.render_certificate,
            self.issue_credential,
            catalogues=self.catalogues,
            settings=settings,
        )
        self.check_vat_ids = CheckVatIds(database, clock, settings, self._vat_register(), vat_id_of(settings))
        self._open_checkout(clock)
        self._open_order_pages(clock)

    def _vat_register(self) -> VatRegister | None:
        """Asked like a receiver of webhooks: over TLS, at public addresses only, through the same proxy."""
        settings = self.settings
        return Vies(partial(post_once, settings), settings.vies_url) if settings.vat_register == "vies" else None

    def _open_checkout(self, clock: Clock) -> None:
        database, settings = self.database, self.settings
        needed = (database, self.catalogues, self.directory, clock, settings, self.box)
        self.offset_links = OffsetLinkEndpoints(*needed)
        create_checkout = CreateCheckout(*needed)
        self.checkouts = CheckoutEndpoints(database, create_checkout, clock=clock, settings=settings, box=self.box)
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
            vat_ids=self.check_vat_ids,
        )
        confirmation = ConfirmCharge(
            database, self.card_gateways, clock, settings, self.notifier, settle_invoice_charge
        )
        self.bank = SimulatedBank(self.renderer, self.form_guard, confirmation)
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
            bank=self.bank,
        )

    def _open_order_pages(self, clock: Clock) -> None:
        database, settings = self.database, self.settings
        self.mail_certificates = MailCertificates(database, clock, settings, self.render_certificate)
        self.mail_changed_certificates = MailChangedCertificates(database, clock, settings, self.render_certificate)
        self.order_page = OrderPage(
            database=database,
            renderer=self.renderer,
            guard=self.form_guard,
            clock=clock,
            settings=settings,
            bank=self.bank,
            confirm_limit=AttemptLimit(settings, "confirm_payment"),
            certificate_limit=AttemptLimit(settings, "order_certificate"),
            certificates=self.render_certificate,
            notifier=self.notifier,
        )
        self.find_orders = FindOrdersPage(database, self.renderer, self.form_guard, clock)
        self.mail_order_links = MailOrderLinks(database, clock, settings)
        self.receipt_page = ReceiptPage(
            database=database,
            renderer=self.renderer,
            settings=settings,
            pdf_limit=AttemptLimit(settings, "order_receipt"),
            originals=self.originals,
        )
