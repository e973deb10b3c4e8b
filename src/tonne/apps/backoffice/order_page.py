"""One order of any organisation: its life as a timeline, and what operators may do to it."""

from tonne.apps.dashboard.order_desk import ERRORS, DeskForm, DeskPage, OrderDesk
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Fields, OperatorForm, OperatorPage, OperatorViewer
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Scope, is_id
from tonne.selling.orders.scope_store import find_scope_any_account


class OrderOfOperator(DashboardPage, frozen=True):
    desk: OrderDesk

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={path: self._page(page) for path, (page, _) in self.desk.pages().items()},
            forms={path: self._form(form) for path, (form, _) in self.desk.forms().items()},
            errors=ERRORS,
            limits=(self.desk.mails,),
        )

    def _page(self, page: DeskPage) -> OperatorPage:
        async def show(request: Request, viewer: OperatorViewer) -> Response:
            return await page(request, viewer, await self._scope(request, viewer))

        return show

    def _form(self, form: DeskForm) -> OperatorForm:
        async def submit(request: Request, viewer: OperatorViewer, fields: Fields) -> Response:
            return await form(request, viewer, await self._scope(request, viewer), fields)

        return submit

    async def _scope(self, request: Request, viewer: OperatorViewer) -> Scope:
        """The scope of an order of this mode."""
        order_id = request.path("order_id")
        scope = None
        if is_id("ord", order_id):
            async with self.database.connection() as connection:
                scope = await find_scope_any_account(connection, order_id)
        if scope is None or scope.mode is not viewer.mode:
            raise DashboardPageNotFound
        return scope
