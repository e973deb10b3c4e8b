"""Month end: what is still open, the sums of the journal, and the exports for the books."""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, date, datetime
from typing import Any

from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES
from tonne.apps.backoffice.money.confirmed_step import ONE_MORE, ConfirmedPage, Wording, Work
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.apps.lookup.doctor.doctor_run_store import find_last_run
from tonne.money.accounting.books import open_points
from tonne.money.accounting.books.check_month import check_month
from tonne.money.accounting.books.close_month import approve_reopening, close_month, request_reopening
from tonne.money.accounting.books.errors import ChartIncomplete
from tonne.money.accounting.books.files import FILES, BookFile, file_name
from tonne.money.accounting.books.month_store import find_closed
from tonne.money.accounting.journal import read_journal
from tonne.platform.http.route import Request, Response
from tonne.platform.web.render import see_other
from tonne.selling.users.names import name_actors

# Months to choose from.
MONTHS = 24
MAX_REASON = 500
# Text is sent in parts of about this size.
PART = 64 * 1024
POINTS = {
    "transfers": ("{} unmatched or overpaid", "transfer", "transfers", "/money/inbox"),
    "doubtful": ("{} of statements to decide about", "line", "lines", "/money/inbox#doubtful"),
    "returns": ("{} to payers not yet paid", "return", "returns", "/money/returns"),
    "unbilled": ("{} not yet on a consolidated invoice", "order", "orders", None),
    "held_back": ("{} without an invoice", "order", "orders", "/orders"),
    "write_offs": ("{} waiting for a second operator", "write-off", "write-offs", "/money"),
    "refunds": ("{} not yet made", "refund", "refunds", "/money/refunds"),
    "disputes": ("{} not yet decided", "dispute", "disputes", "/money/disputes"),
    "documents": ("{} paid by card without a document", "order", "orders", "/orders"),
    "dispute_taxes": ("{} lost after delivery: decide about the tax", "dispute", "disputes", "/money/disputes"),
    "payouts": ("{} of the card gateway not matched with a transfer", "payout", "payouts", "/money/inbox"),
}
ONE = "/month-end/{month}"


class MonthEndPage(ConfirmedPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/month-end": self.choose, ONE: self.show, f"{ONE}/files/{{name}}": self.download},
            forms={
                f"{ONE}/close": self.close,
                f"{ONE}/reopen": self.reopen,
                f"{ONE}/approve": self.approve,
                f"{ONE}/compare": self.compare,
            },
            uploads={f"{ONE}/compare": MAX_UPLOAD_BYTES + 64 * 1024},
        )

    async def choose(self, viewer: OperatorViewer) -> Response:
        """The page of the month in the query, or of the last complete month."""
        [text] = viewer.request.query("month")
        month = _read_month(text) or _before(self._this_month())
        return see_other(f"{viewer.base}/month-end/{month:%Y-%m}")

    async def show(self, viewer: OperatorViewer) -> Response:
        return await self._page(viewer, self._month(viewer.request))

    async def close(self, viewer: OperatorViewer, form: Form) -> Response:
        month, by = self._month(viewer.request), viewer.actor.at(self.clock())
        effects = [
            f"Nothing is booked in {month:%B %Y} any more. What is found later is booked on the first open day.",
            "The files of the month do not change any more.",
            "Only two people together can reopen the month, and only while it is the last closed one.",
        ]
        words = Wording("Close the month", "month_closed", effects)
        return await self._take(
            viewer, form, words, lambda tx: close_month(tx, viewer.mode, month, settings=self.settings, by=by)
        )

    async def reopen(self, viewer: OperatorViewer, form: Form) -> Response:
        month, by = self._month(viewer.request), viewer.actor.at(self.clock())
        reason = form.text("reason", "Say why, for the audit log.", longest=MAX_REASON)
        effects = [f"Another person must approve it. {month:%B %Y} stays closed until then."]
        words = Wording("Ask to reopen the month", "reopening_requested", effects)
        return await self._take(
            viewer, form, words, lambda tx: request_reopening(tx, viewer.mode, month, reason, by=by)
        )

    async def approve(self, viewer: OperatorViewer, form: Form) -> Response:
        month, now = self._month(viewer.request), self.clock()
        words = Wording(
            "Reopen the month",
            lambda is_open: "month_reopened" if is_open else "first_approval",
            lambda is_open: [f"Entries can be booked in {month:%B %Y} again."] if is_open else ONE_MORE,
        )
        return await self._take(
            viewer,
            form,
            words,
            lambda tx: approve_reopening(tx, viewer.mode, month, approver=viewer.approver(now), now=now),
        )

    async def compare(self, viewer: OperatorViewer, form: Form) -> Response:
        """Say which file of the closed month has the bytes of the uploaded one."""
        month, sent = self._month(viewer.request), viewer.request.file("given")
        closed = await self.database.run(find_closed, viewer.mode, month)
        digests = {} if closed is None or closed.digests is None else closed.digests
        found = None
        if sent is None or not sent.content:
            form.fail("given", "Choose a file of this month.")
        else:
            digest = hashlib.sha256(sent.content).hexdigest()
            found = next((FILES[name].title for name in digests if digests[name] == digest), None)
            if found is None:
                form.fail("given", "No file of this month has these bytes. It is of another month, or was changed.")
        return await self._page(viewer, month, form, equal=found)

    async def _take(self, viewer: OperatorViewer, form: Form, words: Wording, work: Work[Any]) -> Response:
        month = self._month(viewer.request)
        back = f"{viewer.base}/month-end/{month:%Y-%m}"

        async def show_faults(viewer: OperatorViewer, form: Form) -> Response:
            return await self._page(viewer, month, form)

        return await self.take_step(viewer, form, words, work, show_faults=show_faults, back=back)

    async def download(self, viewer: OperatorViewer) -> Response:
        month, name = self._month(viewer.request), viewer.request.path("name")
        if name not in FILES:
            raise DashboardPageNotFound
        file, period = FILES[name], read_journal.month_period(viewer.mode, month)
        if file.check is not None:
            try:
                await self.database.run(file.check, period)
            except ChartIncomplete as error:
                form = Form()
                form.fail("", str(error))
                return await self._page(viewer, month, form)
        shown = file_name(name, period)
        headers = {"Content-Disposition": f'attachment; filename="{shown}"', "Cache-Control": "private, no-store"}
        kind = f"{file.media_type}; charset={file.encoding}".encode()
        return Response(b"", 200, kind, headers, stream=self._stream(file, period))

    async def _stream(self, file: BookFile, period: read_journal.Period) -> AsyncGenerator[bytes]:
        """From one snapshot, on a connection of its own: a slow reader holds it until the end."""
        held, size = list[str](), 0
        async with self.database.long_snapshot() as tx:
            async for text in file.write(tx, period):
                held.append(text)
                size += len(text)
                if size >= PART:
                    yield file.encode("".join(held))
                    held, size = [], 0
        yield file.encode("".join(held))

    async def _page(
        self, viewer: OperatorViewer, month: date, form: Form | None = None, *, equal: str | None = None
    ) -> Response:
        period = read_journal.month_period(viewer.mode, month)
        async with self.database.connection() as connection:
            points = await open_points.list_open_points_any_account(connection, period)
            last_booking = await open_points.find_last_booking_any_account(connection, viewer.mode)
            totals = await read_journal.sum_turnover(connection, period)
            check = await check_month(connection, period, self.clock())
            closed = check.closed
            names = await name_actors(
                connection, [closed.closed_by, closed.reopen_requested_by] if closed is not None else []
            )
            doctor = await find_last_run(connection)
            beginning = await open_points.find_beginning_any_account(connection)
        last_day = (period.end.date()).fromordinal(period.end.date().toordinal() - 1)
        return self.layout.page(
            viewer,
            "operator_month_end.html",
            form,
            entered={"reason": "" if form is None else form.value("reason")},
            month=month,
            months=self._months(beginning, month),
            is_over=self.clock() >= period.end,
            last_day=last_day,
            points=[(point, *_as_text(point.kind, point.count)) for point in points],
            last_booking=last_booking,
            is_booked=last_booking is not None and last_booking >= last_day,
            doctor=doctor,
            totals=_by_currency(totals),
            check=check,
            closed=closed,
            names=names,
            files=FILES,
            equal=equal,
        )

    def _month(self, request: Request) -> date:
        """A month that has begun. Raises DashboardPageNotFound."""
        month = _read_month(request.path("month"))
        if month is None or month > self._this_month():
            raise DashboardPageNotFound
        return month

    def _this_month(self) -> date:
        return self.clock().astimezone(UTC).date().replace(day=1)

    def _months(self, beginning: datetime | None, shown: date) -> list[date]:
        """The newest first, not before anything was booked, and the shown one, which may be older."""
        months = [self._this_month()]
        first = months[0] if beginning is None else beginning.astimezone(UTC).date().replace(day=1)
        while len(months) < MONTHS and months[-1] > first:
            months.append(_before(months[-1]))
        return months if shown in months else [*months, shown]


def _by_currency(
    totals: Sequence[read_journal.AccountTurnover],
) -> list[tuple[str, list[read_journal.AccountTurnover], int, int]]:
    """For each currency its accounts, and the sums of debits and credits, which are equal."""
    found = []
    for currency in sorted({each.currency for each in totals}):
        rows = [each for each in totals if each.currency == currency]
        found.append((currency, rows, sum(each.debit_minor for each in rows), sum(each.credit_minor for each in rows)))
    return found


def _as_text(kind: str, count: int) -> tuple[str, str | None]:
    """What is open, and the page on which it is dealt with."""
    words, one, many, path = POINTS[kind]
    return words.format(f"{count:,} {one if count == 1 else many}"), path


def _read_month(text: str | None) -> date | None:
    try:
        return datetime.strptime(text or "", "%Y-%m").replace(tzinfo=UTC).date()
    except ValueError:
        return None


def _before(month: date) -> date:
    return month.replace(year=month.year - 1, month=12) if month.month == 1 else month.replace(month=month.month - 1)
