"""Constructs the pages of organisations and of the operator."""

from tonne.apps.backoffice.act_as_page import ActAsPage
from tonne.apps.backoffice.audit_page import OperatorAuditPage
from tonne.apps.backoffice.catalogue.bundle_page import BundlePage
from tonne.apps.backoffice.catalogue.catalogue_page import CataloguePage, ImportPage
from tonne.apps.backoffice.catalogue.pictures_page import PicturesPage
from tonne.apps.backoffice.catalogue.staged_imports import StagedImports
from tonne.apps.backoffice.customer_tax_page import CustomerTaxPage
from tonne.apps.backoffice.customers_page import CustomerPage, CustomersPage
from tonne.apps.backoffice.jobs_page import JobsPage
from tonne.apps.backoffice.limits_page import LimitsPage
from tonne.apps.backoffice.mails_page import MailsPage
from tonne.apps.backoffice.money.approvals_page import ApprovalsPage
from tonne.apps.backoffice.money.books_page import BooksPage
from tonne.apps.backoffice.money.documents_page import AllDocumentsPage
from tonne.apps.backoffice.money.einvoices_page import EInvoicesPage
from tonne.apps.backoffice.money.inbox_page import InboxPage
from tonne.apps.backoffice.money.invoice_page import OperatorInvoicePage
from tonne.apps.backoffice.money.money_page import MoneyPage
from tonne.apps.backoffice.money.month_end_page import MonthEndPage
from tonne.apps.backoffice.money.payments_page import PaymentsPage
from tonne.apps.backoffice.money.refunds_page import RefundsPage
from tonne.apps.backoffice.money.replace_page import OperatorReplacePage
from tonne.apps.backoffice.money.returns_page import ReturnsPage
from tonne.apps.backoffice.money.transfer_page import TransferPage
from tonne.apps.backoffice.order_page import OrderOfOperator
from tonne.apps.backoffice.orders_page import OperatorJumpPage, OrdersOfAllPage
from tonne.apps.backoffice.persons_page import PersonsPage
from tonne.apps.backoffice.supply.facts_page import FactsPage
from tonne.apps.backoffice.supply.lot_page import LotPage
from tonne.apps.backoffice.supply.registries_page import RegistriesPage
from tonne.apps.backoffice.supply.supply_page import SupplyPage
from tonne.apps.backoffice.supply.work_list_page import RetirementDeskPage
from tonne.apps.backoffice.today_page import TodayPage
from tonne.apps.dashboard.order_desk import MAILS, MAILS_PER_S, OrderDesk
from tonne.apps.dashboard.page import OperatorSection, OrganisationSection
from tonne.apps.lookup.order_actions import OrderActions
from tonne.apps.wiring.parts import Parts
from tonne.apps.wiring.routes import all_routes
from tonne.apps.workspace.accounts_page import AccountPage, AccountsPage
from tonne.apps.workspace.audit_page import AuditLogPage
from tonne.apps.workspace.buy_page import BuyPage
from tonne.apps.workspace.certificates_page import AuditPacksPage, CertificatesPage
from tonne.apps.workspace.developers.keys_page import KeysPage
from tonne.apps.workspace.developers.requests_page import EventsPage, RequestsPage
from tonne.apps.workspace.developers.webhooks_page import WebhooksPage
from tonne.apps.workspace.documents_page import DocumentsPage
from tonne.apps.workspace.invoices_page import InvoicesPage
from tonne.apps.workspace.links.link_figures import LinkExport
from tonne.apps.workspace.links.link_page import LinkPage
from tonne.apps.workspace.links.links_page import LinksPage
from tonne.apps.workspace.order_page import OrderOfMember
from tonne.apps.workspace.orders_page import HistoryPage, JumpPage, OrdersPage
from tonne.apps.workspace.overview_page import OverviewPage
from tonne.apps.workspace.page_editor import PageEditor
from tonne.apps.workspace.people_page import PeoplePage
from tonne.apps.workspace.replace_page import ReplaceInvoicePage
from tonne.apps.workspace.statement_page import StatementPage
from tonne.apps.workspace.tax_page import TaxPage
from tonne.platform.http.limits.rate_limit import TokenBuckets


def organisation_sections(parts: Parts) -> tuple[OrganisationSection, ...]:
    page, catalogues, directory, box = parts.page, parts.catalogues, parts.directory, parts.box
    return (
        RequestsPage(*page, lambda: all_routes(parts)).section(),
        BuyPage(*page, catalogues, directory, parts.place_orders).section(),
        AccountsPage(*page, catalogues).section(),
        *(each(*page, catalogues, directory, box).section() for each in (AccountPage, LinksPage, LinkPage)),
        LinkExport(parts.database, parts.clock).section(),
        PageEditor(*page, parts.public_page).section(),
        WebhooksPage(*page, parts.webhooks, box).section(),
        OrderOfMember(*page, _order_desk(parts, limit_name="order_mails")).section(),
        *(each(*page).section() for each in (InvoicesPage, ReplaceInvoicePage)),
        DocumentsPage(*page, parts.originals).section(),
        StatementPage(*page).section(),
        TaxPage(*page).section(),
        *(each(*page).section() for each in (KeysPage, EventsPage, OverviewPage, OrdersPage)),
        CertificatesPage(*page, parts.render_certificate).section(),
        *(each(*page).section() for each in (HistoryPage, AuditPacksPage, JumpPage, PeoplePage, AuditLogPage)),
    )


def operator_sections(parts: Parts) -> tuple[OperatorSection, ...]:
    pages = (CustomersPage, CustomerPage, CustomerTaxPage, ActAsPage, LimitsPage, MailsPage, PersonsPage)
    search = (OperatorAuditPage, OperatorJumpPage, OrdersOfAllPage)
    money = (MoneyPage, InboxPage, TransferPage, ReturnsPage, RefundsPage, ApprovalsPage, MonthEndPage, BooksPage)
    return (
        TodayPage(*parts.page, parts.catalogues).section(),
        JobsPage(*parts.page, parts.queues).section(),
        *(page(*parts.page).section() for page in (*pages, *search)),
        OrderOfOperator(*parts.page, _order_desk(parts, limit_name="operator_order_mails")).section(),
        *_supply_desk(parts),
        *(page(*parts.page).section() for page in (OperatorInvoicePage, OperatorReplacePage, EInvoicesPage)),
        AllDocumentsPage(*parts.page, parts.originals).section(),
        PaymentsPage(*parts.page, parts.card_gateways).section(),
        *(page(*parts.page).section() for page in money),
    )


def _supply_desk(parts: Parts) -> tuple[OperatorSection, ...]:
    """The operator's pages about retirements, supply and the catalogue."""
    imports = StagedImports(parts.database, parts.settings)
    return (
        RetirementDeskPage(*parts.page, imports).section(),
        SupplyPage(*parts.page, imports, parts.catalogues).section(),
        FactsPage(*parts.page, imports).section(),
        CataloguePage(*parts.page, imports).section(),
        ImportPage(*parts.page, imports).section(),
        *(page(*parts.page).section() for page in (LotPage, RegistriesPage, BundlePage, PicturesPage)),
    )


def _order_desk(parts: Parts, *, limit_name: str) -> OrderDesk:
    """`limit_name` is that of the limit of mails: what members send does not use up the operator's."""
    actions = OrderActions(
        parts.database, parts.card_gateways, parts.clock, parts.settings, parts.notifier, parts.retire_test_order
    )
    mails = TokenBuckets(limit_name, MAILS_PER_S, MAILS)
    return OrderDesk(*parts.page, actions, parts.render_certificate, parts.originals, mails)
