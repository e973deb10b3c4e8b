"""One order of any organisation: its life as a timeline, and what operators may do to it."""

from tonne.apps.dashboard.order_desk import ERRORS, OrderDesk
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Fields, OperatorViewer
from tonne.platform.http.route import Request, Response
from tonne.platform.values.ids import is_id
from tonne.platform.values.scope import Scope
from tonne.selling.orders.scope_store import find_scope_any_account


class OrderOfOperator(DashboardPage, frozen=True):
    desk: OrderDesk

    def section(self) -> OperatorSection:
        one = "/orders/{order_id}"
        return OperatorSection(
            pages={
                one: self.show,
                f"{one}/cancel": self.show_cancel,
                f"{one}/refund": self.show_refund,
                f"{one}/mails": self.show_resend,
                f"{one}/name": self.show_rename,
                f"{one}/certificate.pdf": self.certificate,
                f"{one}/invoice.pdf": self.invoice,
            },
            forms={
                f"{one}/cancel": self.cancel,
                f"{one}/refund": self.refund,
                f"{one}/mails": self.resend,
                f"{one}/name": self.rename,
                f"{one}/test-helpers/{{step}}": self.help,
            },
            errors=ERRORS,
            limits=(self.desk.mails,),
        )

    async def show(self, request: Request, viewer: OperatorViewer) -> Response:
        return await self.desk.show(request, viewer, await self._scope(request, viewer))

    async def show_cancel(self, request: Request, viewer: OperatorViewer) -> Response:
        return await self.desk.show_cancel(request, viewer, await self._scope(request, viewer))

    async def cancel(self, request: Request, viewer: OperatorViewer, fields: Fields) -> Response:
        return await self.desk.cancel(request, viewer, await self._scope(request, viewer), fields)

    async def show_refund(self, request: Request, viewer: OperatorViewer) -> Response:
        return await self.desk.show_refund(request, viewer, await self._scope(request, viewer))

    async def refund(self, request: Request, viewer: OperatorViewer, fields: Fields) -> Response:
        return await self.desk.refund(request, viewer, await self._scope(request, viewer), fields)

    async def show_resend(self, request: Request, viewer: OperatorViewer) -> Response:
        return await self.desk.show_resend(request, viewer, await self._scope(request, viewer))

    async def resend(self, request: Request, viewer: OperatorViewer, fields: Fields) -> Response:
        return await self.desk.resend(request, viewer, await self._scope(request, viewer), fields)

    async def show_rename(self, request: Request, viewer: OperatorViewer) -> Response:
        return await self.desk.show_rename(request, viewer, await self._scope(request, viewer))

    async def rename(self, request: Request, viewer: OperatorViewer, fields: Fields) -> Response:
        return await self.desk.rename(request, viewer, await self._scope(request, viewer), fields)

    async def help(self, request: Request, viewer: OperatorViewer, _: Fields) -> Response:
        return await self.desk.help(request, viewer, await self._scope(request, viewer))

    async def certificate(self, request: Request, viewer: OperatorViewer) -> Response:
        return await self.desk.certificate(request, await self._scope(request, viewer))

    async def invoice(self, request: Request, viewer: OperatorViewer) -> Response:
        return await self.desk.invoice(request, await self._scope(request, viewer))

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
