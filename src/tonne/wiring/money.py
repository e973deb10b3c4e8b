"""Constructs the pages about money."""

from tonne.backoffice.confirmed_step import ConfirmedSteps
from tonne.backoffice.inbox_page import InboxPage
from tonne.backoffice.money_page import MoneyPage
from tonne.backoffice.month_end_page import MonthEndPage
from tonne.backoffice.operator_invoice_page import OperatorInvoicePage
from tonne.backoffice.refunds_page import RefundsPage
from tonne.backoffice.returns_page import ReturnsPage
from tonne.backoffice.transfer_page import TransferPage
from tonne.dashboard.section import OperatorSection, OrganisationSection
from tonne.wiring.parts import Parts
from tonne.workspace.invoices_page import InvoicesPage
from tonne.workspace.statement_page import StatementPage


def operator_money(parts: Parts) -> tuple[OperatorSection, ...]:
    database, layout, notifier = parts.database, parts.dashboard.layout, parts.notifier
    clock, settings = parts.clock, parts.settings
    steps = ConfirmedSteps(database, layout, notifier)
    return (
        MoneyPage(database, layout, clock=clock).section(),
        OperatorInvoicePage(database, layout, steps, parts.render_invoice, clock=clock, settings=settings).section(),
        InboxPage(database, layout, clock=clock, settings=settings, notifier=notifier).section(),
        TransferPage(database, layout, steps, clock=clock, settings=settings).section(),
        ReturnsPage(database, layout, steps, clock=clock, settings=settings).section(),
        RefundsPage(database, layout, steps, clock=clock).section(),
        MonthEndPage(database, layout, clock=clock).section(),
    )


def organisation_money(parts: Parts) -> tuple[OrganisationSection, ...]:
    database, layout, clock = parts.database, parts.dashboard.layout, parts.clock
    return (
        InvoicesPage(database, layout, parts.render_invoice, clock=clock).section(),
        StatementPage(database, layout, clock=clock, settings=parts.settings).section(),
    )
