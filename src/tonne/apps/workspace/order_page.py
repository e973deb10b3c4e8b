"""One order of an organisation: its life as a timeline, and what members may do to it."""

from tonne.apps.dashboard.order_desk import ERRORS, OrderDesk
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Fields, MemberViewer
from tonne.platform.http.route import Request, Response
from tonne.platform.values.ids import is_id
from tonne.platform.values.scope import Scope
from tonne.selling.orders.scope_store import find_scope
from tonne.selling.users.model import Right


class OrderOfMember(DashboardPage, frozen=True):
    desk: OrderDesk

    def section(self) -> OrganisationSection:
        one = "/orders/{order_id}"
        return OrganisationSection(
            pages={
                one: (self.show, Right.VIEW),
                f"{one}/cancel": (self.show_cancel, Right.MONEY),
                f"{one}/refund": (self.show_refund, Right.MONEY),
                f"{one}/mails": (self.show_resend, Right.MONEY),
                f"{one}/name": (self.show_rename, Right.MONEY),
                f"{one}/certificate.pdf": (self.certificate, Right.VIEW),
                f"{one}/invoice.pdf": (self.invoice, Right.VIEW),
            },
            forms={
                f"{one}/cancel": (self.cancel, Right.MONEY),
                f"{one}/refund": (self.refund, Right.MONEY),
                f"{one}/mails": (self.resend, Right.MONEY),
                f"{one}/name": (self.rename, Right.MONEY),
                f"{one}/test-helpers/{{step}}": (self.help, Right.TEST_KEYS),
            },
            errors=ERRORS,
            limits=(self.desk.mails,),
        )

    async def show(self, request: Request, viewer: MemberViewer) -> Response:
        return await self.desk.show(request, viewer, await self._scope(request, viewer))

    async def show_cancel(self, request: Request, viewer: MemberViewer) -> Response:
        return await self.desk.show_cancel(request, viewer, await self._scope(request, viewer))

    async def cancel(self, request: Request, viewer: MemberViewer, fields: Fields) -> Response:
        return await self.desk.cancel(request, viewer, await self._scope(request, viewer), fields)

    async def show_refund(self, request: Request, viewer: MemberViewer) -> Response:
        return await self.desk.show_refund(request, viewer, await self._scope(request, viewer))

    async def refund(self, request: Request, viewer: MemberViewer, fields: Fields) -> Response:
        return await self.desk.refund(request, viewer, await self._scope(request, viewer), fields)

    async def show_resend(self, request: Request, viewer: MemberViewer) -> Response:
        return await self.desk.show_resend(request, viewer, await self._scope(request, viewer))

    async def resend(self, request: Request, viewer: MemberViewer, fields: Fields) -> Response:
        return await self.desk.resend(request, viewer, await self._scope(request, viewer), fields)

    async def show_rename(self, request: Request, viewer: MemberViewer) -> Response:
        return await self.desk.show_rename(request, viewer, await self._scope(request, viewer))

    async def rename(self, request: Request, viewer: MemberViewer, fields: Fields) -> Response:
        return await self.desk.rename(request, viewer, await self._scope(request, viewer), fields)

    async def help(self, request: Request, viewer: MemberViewer, _: Fields) -> Response:
        return await self.desk.help(request, viewer, await self._scope(request, viewer))

    async def certificate(self, request: Request, viewer: MemberViewer) -> Response:
        return await self.desk.certificate(request, await self._scope(request, viewer))

    async def invoice(self, request: Request, viewer: MemberViewer) -> Response:
        return await self.desk.invoice(request, await self._scope(request, viewer))

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
