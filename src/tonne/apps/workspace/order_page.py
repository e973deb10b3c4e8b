"""One order of an organisation: its life as a timeline, and what members may do to it."""

from tonne.apps.dashboard.order_desk import ERRORS, OrderDesk
from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.platform.values.context import Scope
from tonne.selling.orders.scope_store import find_scope


class OrderOfMember(DashboardPage, frozen=True):
    desk: OrderDesk

    def section(self) -> OrganisationSection:
        pages, forms = self.desk.pages(self._find), self.desk.forms(self._find)
        return OrganisationSection(pages, forms, errors=ERRORS, limits=(self.desk.mails,))

    async def _find(self, viewer: MemberViewer, order_id: str) -> Scope | None:
        """The scope of an order of this organisation and mode."""
        return await self.database.run(find_scope, viewer.organisation_id, viewer.mode, order_id)
