"""The orders of an organisation: search, filters and export."""

from msgspec import field

from tonne.apps.dashboard.order_query import OrderQuery, read_query
from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.apps.lookup.find_orders import ListedOrders, find_named, list_named, list_page
from tonne.apps.lookup.order_export import csv_response
from tonne.apps.lookup.order_text import list_values
from tonne.platform.db.database import Connection
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Response
from tonne.platform.values.paging import CursorInvalid, Position
from tonne.selling.accounts.directory import Names, find_names, list_account_names
from tonne.selling.accounts.import_history import list_of_organisation
from tonne.selling.orders.model import OrderKey
from tonne.selling.users.model import Right
from tonne.supply.certificates.store import normal_number

PAGE = 50
# With more accounts, the filter is a text field: a page must stay small.
MAX_ACCOUNTS = 200
# Exports read many rows: per organisation 10 at once, then one every 30 seconds.
EXPORTS = 10
EXPORTS_PER_S = 1 / 30
TOO_MANY_EXPORTS = "Too many exports. Wait a minute, then try again."


class OrdersPage(DashboardPage, frozen=True):
    exports: TokenBuckets = field(default_factory=lambda: TokenBuckets("order_exports", EXPORTS_PER_S, EXPORTS))

    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/orders": (self.show, Right.VIEW), "/orders.csv": (self.export, Right.VIEW)},
            errors=(CursorInvalid, RateLimited),
            limits=(self.exports,),
        )

    async def show(self, viewer: MemberViewer) -> Response:
        query = read_query(viewer.request, viewer.mode, viewer.organisation_id, self.clock())
        async with self.database.connection() as connection:
            page = await _find(connection, viewer, query, query.start, PAGE)
            names = await find_names(connection, viewer.organisation_id, [order.account_id for order in page.orders])
            found = await list_account_names(connection, viewer.organisation_id, viewer.mode, limit=MAX_ACCOUNTS + 1)
            has_history = bool(await list_of_organisation(connection, viewer.organisation_id, viewer.mode, limit=1))
        accounts = None if len(found.by_id) > MAX_ACCOUNTS else list(found.by_id.items())
        return self.layout.page(
            viewer,
            "orders.html",
            query.form,
            query=query,
            page=page,
            names=names,
            accounts=accounts,
            reasons={},
            layout="organisation.html",
            is_operator=False,
            has_history=has_history,
            **list_values(),
        )

    async def export(self, viewer: MemberViewer) -> Response:
        """Exports the filtered list, from its beginning."""
        query = read_query(viewer.request, viewer.mode, viewer.organisation_id, self.clock())
        self.exports.require(viewer.organisation_id, message=TOO_MANY_EXPORTS)

        async def read_page(start: Position, limit: int) -> tuple[ListedOrders, Names]:
            async with self.database.connection() as connection:
                page = await _find(connection, viewer, query, start, limit)
                ids = [order.account_id for order in page.orders]
                return page, await find_names(connection, viewer.organisation_id, ids)

        return csv_response(read_page, f"orders-{viewer.mode}-{self.clock():%Y-%m-%d}.csv")


async def _find(
    connection: Connection, viewer: MemberViewer, query: OrderQuery, start: Position, limit: int
) -> ListedOrders:
    if query.form.faults:
        return ListedOrders([], None, is_short=False)
    keys: list[OrderKey] = []
    if query.term:
        keys = await find_named(
            connection, viewer.organisation_id, viewer.mode, query.term, certificate=normal_number(query.term)
        )
    if keys:
        return await list_named(connection, keys, query.filter, start, limit=limit)
    return await list_page(connection, query.with_metadata, start, limit=limit)
