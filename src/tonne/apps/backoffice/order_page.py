"""One order of any organisation: its life as a timeline, and what operators may do to it."""

from tonne.apps.dashboard.order_desk import ERRORS, OrderDesk
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.platform.values.context import Scope
from tonne.selling.orders.scope_store import find_scope_any_account


class OrderOfOperator(DashboardPage, frozen=True):
    desk: OrderDesk

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={path: page for path, (page, _) in self.desk.pages(self._find).items()},
            forms={path: form for path, (form, _) in self.desk.forms(self._find).items()},
            errors=ERRORS,
            limits=(self.desk.mails,),
        )

    async def _find(self, viewer: OperatorViewer, order_id: str) -> Scope | None:
        """The scope of an order of this mode."""
        scope = await self.database.run(find_scope_any_account, order_id)
        return scope if scope is not None and scope.mode is viewer.mode else None
