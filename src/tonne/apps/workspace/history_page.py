"""Before Tonne: what the accounts of an organisation state about their orders of former providers."""

from datetime import UTC, datetime, time

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.platform.http.lists import Paging
from tonne.platform.http.route import Response
from tonne.platform.values.paging import CursorInvalid, Position, parse_cursor
from tonne.selling.accounts.directory import find_names
from tonne.selling.accounts.import_history import HistoryOrder, list_of_organisation
from tonne.selling.users.model import Right

PAGE = 50


class HistoryPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(pages={"/history": (self.show, Right.VIEW)}, errors=(CursorInvalid,))

    async def show(self, viewer: MemberViewer) -> Response:
        list_name = f"history {viewer.mode} {viewer.organisation_id}"
        paging = Paging(PAGE, parse_cursor(viewer.request.query("after")[0], list_name), list_name)
        async with self.database.connection() as connection:
            found = await list_of_organisation(
                connection, viewer.organisation_id, viewer.mode, paging.start, limit=paging.fetch
            )
            names = await find_names(connection, viewer.organisation_id, [each.account_id for each in found])
        orders, older = paging.cut(found, _position)
        return self.layout.page(viewer, "history.html", orders=orders, names=names, older=older)


def _position(order: HistoryOrder) -> Position:
    return Position(datetime.combine(order.ordered_on, time(), UTC), order.id)
