"""The parts of `money`."""

from tonne.apps.wiring.supply_parts import SupplyParts
from tonne.money.accounting.matching.import_uploads import ImportUploads
from tonne.money.cards.charge_cards import ChargeCards
from tonne.money.cards.endpoints import CardEndpoints
from tonne.money.cards.gateways.metered_gateway import GatewayMetrics, card_gateways
from tonne.money.cards.model import RetrySchedule
from tonne.money.cards.stored_cards.card_page import CardPage, UpdateCard
from tonne.money.cards.stored_cards.mail_card_problems import MailCardProblems
from tonne.money.cards.stored_cards.stored_cards import RemoveClosedCards
from tonne.money.invoices.card_payment.jobs import invoice_charge_jobs
from tonne.money.invoices.card_payment.take_collections import TakeCollections
from tonne.money.invoices.credit_notes.endpoints import CreditNoteEndpoints
from tonne.money.invoices.credit_notes.issue_credit_note import MailCreditNotes
from tonne.money.invoices.einvoices.network import network_of
from tonne.money.invoices.einvoices.send_einvoices import SendEInvoices
from tonne.money.invoices.endpoints import InvoiceEndpoints
from tonne.money.invoices.follow_up_invoices import FollowUpInvoices
from tonne.money.invoices.issuing.issue_documents import IssueDocuments
from tonne.money.invoices.issuing.issue_invoices import IssueConsolidatedInvoices, IssueInvoices
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.originals.render_documents import RenderDocuments
from tonne.money.invoices.store import have_invoices
from tonne.money.receipts.mail_orders import MailOrders
from tonne.money.refunds.correct_documents import correct_new_documents
from tonne.money.refunds.endpoints import RefundEndpoints
from tonne.money.refunds.jobs import refund_jobs
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, utc_now


class MoneyParts(SupplyParts):
    def __init__(self, database: Database, settings: Settings, clock: Clock = utc_now, *, process: str = "api") -> None:
        super().__init__(database, settings, clock, process=process)
        self.gateway_meter = GatewayMetrics()
        self.card_gateways = card_gateways(database, settings, self.gateway_meter, self.hold)
        schedule = RetrySchedule(settings)
        self.charge_cards = {
            mode: ChargeCards(database, clock, self.card_gateways, mode, schedule, TakeCollections(settings))
            for mode in Mode
        }
        self.invoice_charge_jobs = invoice_charge_jobs(database, self.card_gateways, clock, settings)
        self.refund_jobs = refund_jobs(database, self.card_gateways, clock, schedule)
        self.refunds = RefundEndpoints(database, clock=clock, settings=settings, notifier=self.notifier)
        self.remove_closed_cards = RemoveClosedCards(database, clock, self.card_gateways)
        self.cards = CardEndpoints(
            database,
            self.card_gateways,
            clock=clock,
            settings=settings,
            notifier=self.notifier,
            find_billed=have_invoices,
        )
        self.update_card = UpdateCard(database, clock, settings, self.card_gateways, self.notifier)
        self.mail_card_problems = MailCardProblems(database, clock, settings, self.box)
        self.card_page = CardPage(
            database, self.renderer, self.form_guard, self.update_card, clock=clock, settings=settings
        )
        self._open_invoices(clock)

    def _open_invoices(self, clock: Clock) -> None:
        database, settings = self.database, self.settings
        self.import_uploads = ImportUploads(database, settings, clock)
        self.originals = Originals(database, self.sign_documents, settings, clock)
        self.mails.read_file = self.originals.read
        self.render_documents = RenderDocuments(database, clock, self.originals)
        self.send_einvoices = SendEInvoices(database, clock, self.originals, network_of(settings))
        self.issue_invoices = IssueInvoices(database, clock, settings)
        self.issue_consolidated_invoices = IssueConsolidatedInvoices(database, clock, settings)
        self.issue_documents = IssueDocuments(database, clock, settings, correct_new_documents)
        self.follow_up_invoices = FollowUpInvoices(database, clock, settings, self.originals)
        self.mail_credit_notes = MailCreditNotes(database, clock, settings, self.originals)
        self.mail_orders = MailOrders(database, clock, settings, self.originals)
        self.credit_notes = CreditNoteEndpoints(database, self.originals)
        self.invoices = InvoiceEndpoints(
            database, self.originals, clock=clock, settings=settings, notifier=self.notifier
        )
