"""The orders of an organisation: search, filters and export, also what it states about orders of former providers.

And jumping to a page, an order, a certificate, an account, an event or a webhook of the organisation.
"""

from datetime import UTC, datetime, time

from msgspec import field

from tonne.apps.dashboard.jump import MOST, JumpTarget, matching_pages, order_targets, read_term
from tonne.apps.dashboard.menu import ORGANISATION_MENU, entries_for
from tonne.apps.dashboard.order_query import OrderQuery, read_query
from tonne.apps.dashboard.page import TOO_MANY_EXPORTS, DashboardPage, OrganisationSection, export_limit
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.apps.lookup.find_orders import ListedOrders, find_named, list_named, list_page
from tonne.apps.lookup.order_export import csv_response
from tonne.apps.lookup.order_text import list_values
from tonne.platform.db.database import Connection
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.lists import Paging
from tonne.platform.http.route import Response
from tonne.platform.values.context import is_id
from tonne.platform.values.paging import CursorInvalid, Position, parse_cursor
from tonne.selling.accounts.directory import Names, find_names, list_account_names
from tonne.selling.accounts.import_history import HistoryOrder, list_of_organisation
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.order_filter import OrderFilter
from tonne.selling.users.model import Right
from tonne.supply.certificates.store import find_certificates, normal_number

PAGE = 50
# With more accounts, the filter is a text field: a page must stay small.
MAX_ACCOUNTS = 200


class OrdersPage(DashboardPage, frozen=True):
    exports: TokenBuckets = field(default_factory=lambda: export_limit("order_exports"))

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
            found = await list_account_names(connection, viewer.tenant, limit=MAX_ACCOUNTS + 1)
            has_history = bool(await list_of_organisation(connection, viewer.tenant, limit=1))
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
        keys = await find_named(connection, viewer.tenant, query.term, certificate=normal_number(query.term))
    if keys:
        return await list_named(connection, keys, query.filter, start, limit=limit)
    return await list_page(connection, query.with_metadata, start, limit=limit)


# Accounts are searched among so many: names have no index.
_ACCOUNTS = 500
_IDS = {"evt": ("Event", "events"), "wh": ("Webhook", "webhooks"), "acc": ("Account", "accounts")}


class JumpPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(pages={"/jump": (self.show, Right.VIEW)})

    async def show(self, viewer: MemberViewer) -> Response:
        term = read_term(viewer.request.query("q")[0])
        found = matching_pages(entries_for(ORGANISATION_MENU, viewer.may), viewer.base, term)
        if term:
            found += await self.database.run(_find_place, viewer, term)
        return self.layout.page(
            viewer,
            "jump.html",
            layout="organisation.html",
            term=term,
            found=found,
        )


async def _find_place(connection: Connection, viewer: MemberViewer, term: str) -> list[JumpTarget]:
    base, number = viewer.base, normal_number(term)
    keys = await find_named(connection, viewer.tenant, term, certificate=number)
    orders = await list_named(
        connection, keys, OrderFilter(mode=viewer.mode, organisation_id=viewer.organisation_id), limit=MOST
    )
    targets = order_targets(orders.orders, base)
    if number:
        for each in await find_certificates(connection, viewer.tenant, number=number, order_id=""):
            address = f"{base}/certificates?q={each.record.number}"
            targets.append(JumpTarget("Certificate", each.record.number, each.record.beneficiary, address))
    targets += [
        JumpTarget(kind, term, "", f"{base}/{path}/{term}")
        for prefix, (kind, path) in _IDS.items()
        if is_id(prefix, term)
    ]
    names = await list_account_names(connection, viewer.tenant, limit=_ACCOUNTS)
    named = [(id_, name) for id_, name in names.by_id.items() if term.lower() in name.lower()]
    targets += [JumpTarget("Account", name, id_, f"{base}/accounts/{id_}") for id_, name in named[:MOST]]
    return targets


class HistoryPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(pages={"/history": (self.show, Right.VIEW)}, errors=(CursorInvalid,))

    async def show(self, viewer: MemberViewer) -> Response:
        list_name = f"history {viewer.mode} {viewer.organisation_id}"
        paging = Paging(PAGE, parse_cursor(viewer.request.query("after")[0], list_name), list_name)
        async with self.database.connection() as connection:
            found = await list_of_organisation(connection, viewer.tenant, paging.start, limit=paging.fetch)
            names = await find_names(connection, viewer.organisation_id, [each.account_id for each in found])
        orders, older = paging.cut(found, _position)
        return self.layout.page(viewer, "history.html", orders=orders, names=names, older=older)


def _position(order: HistoryOrder) -> Position:
    return Position(datetime.combine(order.ordered_on, time(), UTC), order.id)
