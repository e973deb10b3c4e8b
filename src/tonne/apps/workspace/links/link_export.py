"""The counts of offset links as CSV: one row per day and link, with exact values."""

import csv
import io
from collections.abc import AsyncIterator, Iterable
from datetime import date, timedelta

from msgspec import Struct, field

from tonne.apps.dashboard.section import OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, MemberViewer
from tonne.apps.workspace.accounts_of_viewer import require_account, require_chosen
from tonne.apps.workspace.links.link_figures import read_period
from tonne.channels.checkout.link_counts.count_store import ListedDay, list_export
from tonne.channels.checkout.links.store import find_link
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.formulas import escape_formula
from tonne.platform.http.errors import RateLimited
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import Clock, is_id
from tonne.selling.accounts.model import Account
from tonne.selling.users.model import Right

HEAD = ("day", "offset_link_id", "title", "opened", "begun", "paid", "quantity_tonnes", "currency", "amount_paid")
# Days per query. Between two of them no connection is held: slow readers block nobody.
PART = timedelta(days=31)
# Per organisation 10 at once, then one every 30 seconds.
EXPORTS = 10
EXPORTS_PER_S = 1 / 30


class LinkExport(Struct, frozen=True):
    database: Database
    clock: Clock
    limit: TokenBuckets = field(default_factory=lambda: TokenBuckets("link_exports", EXPORTS_PER_S, EXPORTS))

    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={
                "/links/days.csv": (self.export_account, Right.VIEW),
                "/accounts/{account_id}/links/{offset_link_id}/days.csv": (self.export_link, Right.VIEW),
            },
            errors=(RateLimited,),
            limits=(self.limit,),
        )

    async def export_account(self, viewer: MemberViewer) -> Response:
        """All links of an account."""
        account = await self.database.run(require_chosen, viewer, viewer.request.query("account")[0])
        return self._file(viewer, account, None)

    async def export_link(self, viewer: MemberViewer) -> Response:
        link_id = viewer.request.path("offset_link_id")
        async with self.database.connection() as connection:
            account = await require_account(connection, viewer, viewer.request.path("account_id"))
            link = await find_link(connection, account.scope, link_id) if is_id("lnk", link_id) else None
        if link is None:
            raise DashboardPageNotFound
        return self._file(viewer, account, link.id)

    def _file(self, viewer: MemberViewer, account: Account, link_id: str | None) -> Response:
        self.limit.require(viewer.organisation_id, message="Too many exports. Wait a minute, then try again.")
        today = self.clock().date()
        first = read_period(viewer.request).first_day(today)
        name = f"{link_id or 'offset-links'}-{viewer.mode}-{first}-{today}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        parts = self._parts(account, link_id, first, today)
        return Response(b"", 200, b"text/csv; charset=utf-8", headers, parts)

    async def _parts(self, account: Account, link_id: str | None, first: date, last: date) -> AsyncIterator[bytes]:
        yield _csv([HEAD])
        while first <= last:
            until = min(last, first + PART - timedelta(days=1))
            days = await self.database.run(list_export, account.scope, link_id, first, until)
            if days:
                yield _csv(_row(day, account.currency) for day in days)
            first = until + timedelta(days=1)


def _row(listed: ListedDay, currency: str) -> tuple[str, ...]:
    """Titles are escaped: a spreadsheet would run `=…` as a formula."""
    totals = listed.totals
    return (
        *(listed.day.isoformat(), listed.offset_link_id, escape_formula(listed.title)),
        *(str(count) for count in totals[:3]),
        *(format_tonnes(totals.paid_grams), currency, format_money(totals.paid_minor, currency)),
    )


def _csv(rows: Iterable[Iterable[str]]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue().encode()
