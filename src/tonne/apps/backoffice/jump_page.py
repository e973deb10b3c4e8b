"""Jump to a page, an order, a certificate or a customer, among all organisations."""

from tonne.apps.dashboard.jump import MOST, JumpTarget, matching_pages, order_targets, read_term
from tonne.apps.dashboard.menu import OPERATOR_MENU
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.apps.lookup.customer_store import search_customers_any_account
from tonne.apps.lookup.find_orders import find_keys_any_account, list_named
from tonne.platform.db.database import Connection
from tonne.platform.http.route import Response
from tonne.platform.values.paging import START
from tonne.selling.orders.order_filter import OrderFilter
from tonne.supply.certificates.store import find_by_number_any_account, normal_number


class OperatorJumpPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(pages={"/jump": self.show})

    async def show(self, viewer: OperatorViewer) -> Response:
        term = read_term(viewer.request.query("q")[0])
        found = matching_pages(OPERATOR_MENU, viewer.base, term)
        if term:
            found += await self.database.run(_find, viewer, term)
        return self.layout.page(viewer, "jump.html", layout="operator.html", term=term, found=found)


async def _find(connection: Connection, viewer: OperatorViewer, term: str) -> list[JumpTarget]:
    number, base = normal_number(term), viewer.base
    keys = await find_keys_any_account(connection, number or term)
    orders = await list_named(connection, keys[:MOST], OrderFilter(mode=viewer.mode), limit=MOST)
    targets = order_targets(orders.orders, base)
    certificate = await find_by_number_any_account(connection, number) if number else None
    if certificate is not None and certificate.scope.mode == viewer.mode:
        record = certificate.record
        targets.append(JumpTarget("Certificate", record.number, record.beneficiary, f"/verify/{record.number}"))
    customers = await search_customers_any_account(connection, term, START, MOST)
    return targets + [JumpTarget("Customer", each.name, each.id, f"{base}/customers/{each.id}") for each in customers]
