"""The audit log of all organisations and of the operators."""

from collections.abc import Sequence

from tonne.apps.dashboard.audit_filter import AuditSearch
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer
from tonne.apps.lookup.audit_csv import MAX_EXPORTED, audit_csv
from tonne.apps.lookup.audit_text import AuditRow, audit_rows, find_actor_names
from tonne.platform.db.database import Connection
from tonne.platform.events.audit.store import AuditPage, StoredEntry, search_entries_any_account
from tonne.platform.http.route import Request, Response
from tonne.platform.values.paging import START, CursorInvalid, make_cursor, parse_cursor

PAGE = 50
# Parts of the log that an export reads at most, each of some thousand entries.
MAX_SCANS = 50


class OperatorAuditPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(pages={"/audit": self.show, "/audit/export": self.export}, errors=(CursorInvalid,))

    async def show(self, request: Request, viewer: OperatorViewer) -> Response:
        search = AuditSearch.of(request)
        after = request.query("after")[0]
        list_name = f"audit {viewer.mode} {search.fields}"
        start = parse_cursor(after, list_name)
        page, rows = AuditPage([], None), list[AuditRow]()
        if not search.form.faults:
            async with self.database.connection() as connection:
                requested = search.filter(viewer.mode)
                page = await search_entries_any_account(connection, search.organisation_id, requested, start, PAGE)
                rows = await _rows(connection, page.entries)
        return self.layout.page(
            request,
            viewer,
            "operator_audit.html",
            search.form,
            search=search,
            rows=rows,
            is_first=after is None,
            next_cursor=None if page.next_start is None else make_cursor(page.next_start, list_name),
        )

    async def export(self, request: Request, viewer: OperatorViewer) -> Response:
        search = AuditSearch.of(request)
        if search.form.faults:
            return await self.show(request, viewer)
        entries, start = list[StoredEntry](), START
        async with self.database.connection() as connection:
            for _ in range(MAX_SCANS):
                page = await search_entries_any_account(
                    connection,
                    search.organisation_id,
                    search.filter(viewer.mode),
                    start,
                    limit=MAX_EXPORTED - len(entries),
                )
                entries += page.entries
                if page.next_start is None or len(entries) >= MAX_EXPORTED:
                    break
                start = page.next_start
            return audit_csv(await _rows(connection, entries), entries)


async def _rows(connection: Connection, entries: Sequence[StoredEntry]) -> list[AuditRow]:
    return audit_rows(entries, await find_actor_names(connection, None, entries), for_operator=True)
