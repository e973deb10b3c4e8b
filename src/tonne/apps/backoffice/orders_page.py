"""The operator's list of orders; and jumping to a page, an order, a certificate or a customer of any organisation."""

from msgspec import field

from tonne.apps.dashboard.jump import MOST, JumpTarget, matching_pages, order_targets, read_term
from tonne.apps.dashboard.menu import OPERATOR_MENU
from tonne.apps.dashboard.order_query import OrderQuery, read_query
from tonne.apps.dashboard.page import TOO_MANY_EXPORTS, DashboardPage, OperatorSection, export_limit
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.apps.lookup import find_orders
from tonne.apps.lookup.customer_store import search_customers_any_account
from tonne.apps.lookup.find_orders import find_keys_any_account, list_named
from tonne.apps.lookup.order_export import csv_response
from tonne.apps.lookup.order_text import explain_waiting, list_values
from tonne.platform.db.database import Connection
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Response
from tonne.platform.values.context import replace
from tonne.platform.values.paging import START, CursorInvalid, Position
from tonne.selling.accounts.directory import Names, find_names_any_account
from tonne.selling.orders.order_filter import OrderFilter
from tonne.supply.certificates.store import find_by_number_any_account, normal_number

PAGE = 50


class OrdersOfAllPage(DashboardPage, frozen=True):
    exports: TokenBuckets = field(default_factory=lambda: export_limit("operator_order_exports"))

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/orders": self.show, "/orders.csv": self.export},
            errors=(CursorInvalid, RateLimited),
            limits=(self.exports,),
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        query = read_query(viewer.request, viewer.mode, None, self.clock())
        async with self.database.connection() as connection:
            page = await _find(connection, query, query.start, PAGE)
            names = await _names(connection, page)
            reasons = await explain_waiting(connection, page.orders, self.clock()) if "stuck" in query.shown else {}
        return self.layout.page(
            viewer,
            "orders.html",
            query.form,
            query=query,
            page=page,
            names=names,
            accounts=None,
            reasons=reasons,
            layout="operator.html",
            is_operator=True,
            **list_values(),
        )

    async def export(self, viewer: OperatorViewer) -> Response:
        """Exports the filtered list, from its beginning."""
        query = read_query(viewer.request, viewer.mode, None, self.clock())
        self.exports.require(viewer.user.id, message=TOO_MANY_EXPORTS)

        async def read_page(start: Position, limit: int) -> tuple[find_orders.ListedOrders, Names]:
            async with self.database.connection() as connection:
                page = await _find(connection, query, start, limit)
                return page, await _names(connection, page)

        name = f"orders-all-{viewer.mode}-{self.clock():%Y-%m-%d}.csv"
        return csv_response(read_page, name, with_organisation=True)


async def _find(connection: Connection, query: OrderQuery, start: Position, limit: int) -> find_orders.ListedOrders:
    if query.form.faults:
        return find_orders.ListedOrders([], None, is_short=False)
    if query.term:
        found = await find_orders.find_keys_any_account(connection, normal_number(query.term) or query.term)
        keys = sorted(found, key=lambda key: key.id, reverse=True)[: find_orders.MAX_NAMED]
        if keys:
            # A term that names orders finds them whether or not they are stuck.
            return await find_orders.list_named(
                connection, keys, replace(query.filter, stuck_at=None), start, limit=limit
            )
    return await find_orders.list_page_any_account(connection, query.with_metadata, start, limit=limit)


async def _names(connection: Connection, page: find_orders.ListedOrders) -> Names:
    ids = {id_ for order in page.orders for id_ in (order.organisation_id, order.account_id)}
    return await find_names_any_account(connection, ids)


class OperatorJumpPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(pages={"/jump": self.show})

    async def show(self, viewer: OperatorViewer) -> Response:
        term = read_term(viewer.request.query("q")[0])
        found = matching_pages(OPERATOR_MENU, viewer.base, term)
        if term:
            found += await self.database.run(_find_place, viewer, term)
        return self.layout.page(viewer, "jump.html", layout="operator.html", term=term, found=found)


async def _find_place(connection: Connection, viewer: OperatorViewer, term: str) -> list[JumpTarget]:
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
