"""The pages of the audit log, of one organisation or of all, and their filter, which is kept in the address."""

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Generic, TypeVar
from urllib.parse import urlencode

from msgspec import Struct

from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.viewer import Form, MemberViewer, OperatorViewer
from tonne.apps.lookup.audit_text import (
    CSV_HEAD,
    MAX_EXPORTED,
    AuditRow,
    audit_rows,
    csv_rows,
    find_actor_names,
    shown_urls,
)
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.csv_text import csv_text
from tonne.platform.events.audit.store import AuditFilter, AuditPage, StoredEntry
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Mode, replace
from tonne.platform.values.paging import START, Position, make_cursor, parse_cursor

V = TypeVar("V", bound=MemberViewer | OperatorViewer)
PAGE = 50
EXPORT_PAGE = 150
# Parts of the log that an export reads at most, each of some thousand entries.
MAX_SCANS = 50
FIELDS = ("actor", "action", "subject", "organisation", "from", "to")
MAX_TEXT = 200


class AuditSearch(Struct, frozen=True):
    """As typed. `form` has the faults."""

    fields: dict[str, str]
    form: Form

    @classmethod
    def of(cls, request: Request) -> "AuditSearch":
        values = zip(FIELDS, request.query(*FIELDS), strict=True)
        fields = {name: (value or "").strip()[:MAX_TEXT] for name, value in values}
        form = Form({name: [value] for name, value in fields.items()})
        for name in ("from", "to"):
            _day(form, name)
        return cls(fields, form)

    @property
    def is_empty(self) -> bool:
        return not any(self.fields.values())

    @property
    def organisation_id(self) -> str | None:
        return self.fields["organisation"] or None

    def filter(self, mode: Mode | None) -> AuditFilter:
        """Days are those of UTC; the last one is included."""
        until = _day(self.form, "to")
        return AuditFilter(
            subject_id=self.fields["subject"] or None,
            action=self.fields["action"] or None,
            actor=self.fields["actor"] or None,
            mode=mode,
            since=_day(self.form, "from"),
            until=None if until is None else until + timedelta(days=1),
        )

    def query(self, **more: str) -> str:
        """For links to other pages of the same search."""
        return urlencode({name: value for name, value in {**self.fields, **more}.items() if value})


def _day(form: Form, name: str) -> datetime | None:
    text = form.value(name)
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        form.fail(name, "Enter a day, such as 2026-11-16.")
        return None
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


class AuditLog(DashboardPage, Generic[V], frozen=True):
    async def read(
        self, connection: Connection, viewer: V, search: AuditSearch, start: Position, *, limit: int
    ) -> AuditPage:
        """The entries that the viewer may see."""
        raise NotImplementedError

    async def show(self, viewer: V) -> Response:
        search, after = AuditSearch.of(viewer.request), viewer.request.query("after")[0]
        list_name = f"audit {viewer.base} {search.fields}"
        start = parse_cursor(after, list_name)
        page, rows = AuditPage([], None), list[AuditRow]()
        if not search.form.faults:
            async with self.database.connection() as connection:
                page = await self.read(connection, viewer, search, start, limit=PAGE)
                rows = await _rows(connection, viewer, _shown(viewer, page.entries))
        return self.layout.page(
            viewer,
            "operator_audit.html" if isinstance(viewer, OperatorViewer) else "audit_log.html",
            search.form,
            search=search,
            rows=rows,
            is_first=after is None,
            next_cursor=None if page.next_start is None else make_cursor(page.next_start, list_name),
        )

    async def export(self, viewer: V) -> Response:
        search = AuditSearch.of(viewer.request)
        if search.form.faults:
            return await self.show(viewer)
        headers = {"Content-Disposition": 'attachment; filename="audit-log.csv"', "Cache-Control": "no-store"}
        return Response(b"", 200, b"text/csv; charset=utf-8", headers, stream=self._parts(viewer, search))

    async def _parts(self, viewer: V, search: AuditSearch) -> AsyncGenerator[bytes]:
        yield csv_text([CSV_HEAD]).encode()
        exported, start = 0, START
        for _ in range(MAX_SCANS + MAX_EXPORTED // EXPORT_PAGE):
            limit = min(EXPORT_PAGE, MAX_EXPORTED - exported)
            async with self.database.connection() as connection:
                page = await self.read(connection, viewer, search, start, limit=limit)
                shown = _shown(viewer, page.entries)
                rows = await _rows(connection, viewer, shown)
            if rows:
                yield csv_text(csv_rows(rows, shown)).encode()
            exported += len(rows)
            if page.next_start is None or exported >= MAX_EXPORTED:
                return
            start = page.next_start


def _shown(viewer: MemberViewer | OperatorViewer, entries: Sequence[StoredEntry]) -> Sequence[StoredEntry]:
    """Without the paths of the addresses of receivers, for a viewer who may not see them."""
    if not isinstance(viewer, MemberViewer) or not viewer.hides_secrets:
        return entries
    return [
        replace(
            entry,
            before=shown_urls(entry.before, viewer.shown_url),
            after=shown_urls(entry.after, viewer.shown_url),
            details=shown_urls(entry.details, viewer.shown_url) or {},
        )
        for entry in entries
    ]


async def _rows(
    connection: Connection, viewer: MemberViewer | OperatorViewer, entries: Sequence[StoredEntry]
) -> list[AuditRow]:
    organisation_id = viewer.organisation_id if isinstance(viewer, MemberViewer) else None
    names = await find_actor_names(connection, organisation_id, entries)
    return audit_rows(entries, names, for_operator=organisation_id is None)
