"""One order of an organisation: its life as a timeline, and what members may do to it."""

from tonne.apps.dashboard.order_desk import ERRORS, DeskForm, DeskPage, OrderDesk
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Fields, MemberForm, MemberPage, MemberViewer
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Scope, is_id
from tonne.selling.orders.scope_store import find_scope


class OrderOfMember(DashboardPage, frozen=True):
    desk: OrderDesk

    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={path: (self._page(page), right) for path, (page, right) in self.desk.pages().items()},
            forms={path: (self._form(form), right) for path, (form, right) in self.desk.forms().items()},
            errors=ERRORS,
            limits=(self.desk.mails,),
        )

    def _page(self, page: DeskPage) -> MemberPage:
        async def show(request: Request, viewer: MemberViewer) -> Response:
            return await page(request, viewer, await self._scope(request, viewer))

        return show

    def _form(self, form: DeskForm) -> MemberForm:
        async def submit(request: Request, viewer: MemberViewer, fields: Fields) -> Response:
            return await form(request, viewer, await self._scope(request, viewer), fields)

        return submit

    async def _scope(self, request: Request, viewer: MemberViewer) -> Scope:
        """The scope of an order of this organisation and mode."""
        order_id = request.path("order_id")
        scope = None
        if is_id("ord", order_id):
            async with self.database.connection() as connection:
                scope = await find_scope(connection, viewer.organisation_id, viewer.mode, order_id)
        if scope is None:
            raise DashboardPageNotFound
        return scope
