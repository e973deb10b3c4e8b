"""Constructs the pages of the operator."""

from tonne.apps.backoffice.act_as_page import ActAsPage
from tonne.apps.backoffice.audit_page import OperatorAuditPage
from tonne.apps.backoffice.customer_page import CustomerPage
from tonne.apps.backoffice.customers_page import CustomersPage
from tonne.apps.backoffice.jobs_page import JobsPage
from tonne.apps.backoffice.jump_page import OperatorJumpPage
from tonne.apps.backoffice.limits_page import LimitsPage
from tonne.apps.backoffice.mails_page import MailsPage
from tonne.apps.backoffice.order_page import OrderOfOperator
from tonne.apps.backoffice.orders_page import OrdersOfAllPage
from tonne.apps.backoffice.today_page import TodayPage
from tonne.apps.dashboard.section import OperatorSection
from tonne.apps.wiring.money import operator_money
from tonne.apps.wiring.order_desk import order_desk
from tonne.apps.wiring.parts import Parts
from tonne.apps.wiring.supply_desk import supply_desk


def operator_sections(parts: Parts) -> tuple[OperatorSection, ...]:
    database, settings, layout, clock = parts.database, parts.settings, parts.dashboard.layout, parts.clock
    return (
        TodayPage(database, layout, parts.catalogues, clock=clock, settings=settings).section(),
        CustomersPage(database, layout, clock=clock, settings=settings).section(),
        CustomerPage(database, layout, clock=clock, settings=settings).section(),
        ActAsPage(database, layout, clock).section(),
        LimitsPage(database, layout, clock=clock).section(),
        JobsPage(database, layout, parts.queues, clock=clock, settings=settings).section(),
        MailsPage(database, layout, clock=clock).section(),
        OperatorAuditPage(database, layout).section(),
        OperatorJumpPage(database, layout).section(),
        OrdersOfAllPage(database, layout, clock=clock).section(),
        OrderOfOperator(database, order_desk(parts, limit_name="operator_order_mails")).section(),
        *supply_desk(parts),
        *operator_money(parts),
    )
