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
    pages = (CustomersPage, CustomerPage, ActAsPage, LimitsPage, MailsPage)
    search = (OperatorAuditPage, OperatorJumpPage, OrdersOfAllPage)
    return (
        TodayPage(*parts.page, parts.catalogues).section(),
        JobsPage(*parts.page, parts.queues).section(),
        *(page(*parts.page).section() for page in (*pages, *search)),
        OrderOfOperator(*parts.page, order_desk(parts, limit_name="operator_order_mails")).section(),
        *supply_desk(parts),
        *operator_money(parts),
    )
