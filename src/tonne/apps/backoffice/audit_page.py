"""The audit log of all organisations and of the operators."""

from tonne.apps.dashboard.audit_log import AuditLog, AuditSearch
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.platform.db.database import Connection
from tonne.platform.events.audit.store import AuditPage, search_entries_any_account
from tonne.platform.values.paging import CursorInvalid, Position


class OperatorAuditPage(AuditLog[OperatorViewer], frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(pages={"/audit": self.show, "/audit/export": self.export}, errors=(CursorInvalid,))

    async def read(
        self, connection: Connection, viewer: OperatorViewer, search: AuditSearch, start: Position, *, limit: int
    ) -> AuditPage:
        requested = search.filter(viewer.mode)
        return await search_entries_any_account(connection, search.organisation_id, requested, start, limit)
