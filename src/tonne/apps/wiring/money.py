"""Constructs the pages about money."""

from tonne.apps.backoffice.money.inbox_page import InboxPage
from tonne.apps.backoffice.money.invoice_page import OperatorInvoicePage
from tonne.apps.backoffice.money.money_page import MoneyPage
from tonne.apps.backoffice.money.month_end_page import MonthEndPage
from tonne.apps.backoffice.money.refunds_page import RefundsPage
from tonne.apps.backoffice.money.returns_page import ReturnsPage
from tonne.apps.backoffice.money.transfer_page import TransferPage
from tonne.apps.dashboard.section import OperatorSection, OrganisationSection
from tonne.apps.wiring.parts import Parts
from tonne.apps.workspace.invoices_page import InvoicesPage
from tonne.apps.workspace.statement_page import StatementPage


def operator_money(parts: Parts) -> tuple[OperatorSection, ...]:
    pages = (MoneyPage, InboxPage, TransferPage, ReturnsPage, RefundsPage, MonthEndPage)
    return (
        OperatorInvoicePage(*parts.page, parts.render_invoice).section(),
        *(page(*parts.page).section() for page in pages),
    )


def organisation_money(parts: Parts) -> tuple[OrganisationSection, ...]:
    return (
        InvoicesPage(*parts.page, parts.render_invoice).section(),
        StatementPage(*parts.page).section(),
    )
