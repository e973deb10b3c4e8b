"""The audit log of one organisation, with the entries that its API keys of this mode may read."""

from collections.abc import Sequence

from tonne.apps.dashboard.audit_filter import AuditSearch
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.apps.lookup.audit_csv import MAX_EXPORTED, audit_csv
from tonne.apps.lookup.audit_text import AuditRow, audit_rows, find_actor_names
from tonne.platform.db.database import Connection
from tonne.platform.events.audit.store import StoredEntry, list_entries
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Actor, ActorKind, Scope
from tonne.platform.values.paging import START, CursorInvalid, Position, make_cursor, parse_cursor
from tonne.platform.values.replace import replace
from tonne.selling.users.model import Right

PAGE = 50


class AuditLogPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/audit": (self.show, Right.VIEW), "/audit/export": (self.export, Right.VIEW)},
            errors=(CursorInvalid,),
        )

    async def show(self, request: Request, viewer: MemberViewer) -> Response:
        search = AuditSearch.of(request)
        after = request.query("after")[0]
        list_name = f"audit {viewer.organisation_id} {viewer.mode} {search.fields}"
        start = parse_cursor(after, list_name)
        found, rows = list[StoredEntry](), list[AuditRow]()
        if not search.form.faults:
            async with self.database.connection() as connection:
                found = await self._find(connection, viewer, search, start, PAGE + 1)
                rows = await _rows(connection, viewer, found[:PAGE])
        last = found[PAGE - 1] if len(found) > PAGE else None
        return self.layout.page(
            request,
            viewer,
            "audit_log.html",
            search.form,
            search=search,
            rows=rows,
            is_first=after is None,
            next_cursor=None if last is None else make_cursor(Position(last.created_at, last.id), list_name),
        )

    async def export(self, request: Request, viewer: MemberViewer) -> Response:
        search = AuditSearch.of(request)
        if search.form.faults:
            return await self.show(request, viewer)
        async with self.database.connection() as connection:
            found = await self._find(connection, viewer, search, START, MAX_EXPORTED)
            return audit_csv(await _rows(connection, viewer, found), found)

    async def _find(
        self, connection: Connection, viewer: MemberViewer, search: AuditSearch, start: Position, limit: int
    ) -> list[StoredEntry]:
        # The log belongs to the organisation: no account is needed to read it.
        scope = Scope(viewer.organisation_id, "", viewer.mode)
        requested = replace(search.filter(None), actor=_stored_actor(search.fields["actor"]))
        return await list_entries(connection, scope, requested, start, limit)


def _stored_actor(text: str) -> str | None:
    """From the id of a key, a user or a link, or the name of a job, as the log stores it."""
    kinds = {"key": ActorKind.KEY, "usr": ActorKind.USER, "lnk": ActorKind.PAYER}
    return str(Actor(kinds.get(text.partition("_")[0], ActorKind.SYSTEM), text)) if text else None


async def _rows(connection: Connection, viewer: MemberViewer, entries: Sequence[StoredEntry]) -> list[AuditRow]:
    names = await find_actor_names(connection, viewer.organisation_id, entries)
    return audit_rows(entries, names, for_operator=False)
