"""Constructs the pages about money."""

from tonne.apps.backoffice.money.confirmed_step import ConfirmedSteps
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
