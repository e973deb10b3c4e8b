"""Month end: what is still open, the sums of the journal, and the exports for the books."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime

from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.apps.lookup.doctor.doctor_run_store import find_last_run
from tonne.money.accounting.journal import read_journal
from tonne.money.accounting.journal.export import beancount_entry, beancount_head, csv_entry, csv_head
from tonne.money.accounting.reports.sales_list import read_sales_any_account, sales_head, sales_rows
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.csv_text import csv_text
from tonne.platform.http.route import Request, Response
from tonne.platform.values.amounts import format_money
from tonne.platform.web.render import see_other
from tonne.selling.users.names import name_actors

# Months to choose from.
MONTHS = 24
BEGINNING = datetime(1990, 1, 1, tzinfo=UTC)
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
    "payouts": ("{} of the card gateway not matched with a transfer", "payout", "payouts", "/money/inbox"),
}
ONE = "/month-end/{month}"
Text = AsyncIterator[str]


class MonthEndPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/month-end": self.choose, ONE: self.show, f"{ONE}/files/{{name}}": self.download},
            forms={f"{ONE}/totals": self.compute},
        )

    async def choose(self, viewer: OperatorViewer) -> Response:
        """The page of the month in the query, or of the last complete month."""
        [text] = viewer.request.query("month")
        month = _read_month(text) or _before(self._this_month())
        return see_other(f"{viewer.base}/month-end/{month:%Y-%m}")

    async def show(self, viewer: OperatorViewer) -> Response:
        return await self._page(viewer, self._month(viewer.request))

    async def compute(self, viewer: OperatorViewer, _: Form) -> Response:
        month = self._month(viewer.request)
        now = self.clock()
        async with self.database.long_snapshot() as tx:
            totals = await read_journal.sum_month_any_account(tx, viewer.mode, month)
        await self.database.commit(read_journal.store_totals, viewer.mode, month, totals, by=viewer.actor.at(now))
        return see_other(f"{viewer.base}/month-end/{month:%Y-%m}?done=month_summed#totals")

    async def download(self, viewer: OperatorViewer) -> Response:
        month, name = self._month(viewer.request), viewer.request.path("name")
        if name not in EXPORTS:
            raise DashboardPageNotFound
        media_type, write = EXPORTS[name]
        file = f"{viewer.mode}-{month:%Y-%m}-{name}"
        headers = {"Content-Disposition": f'attachment; filename="{file}"', "Cache-Control": "private, no-store"}
        stream = self._stream(write, read_journal.month_period(viewer.mode, month))
        return Response(b"", 200, f"{media_type}; charset=utf-8".encode(), headers, stream=stream)

    async def _stream(
        self, write: Callable[[Connection, read_journal.Period], Text], period: read_journal.Period
    ) -> AsyncIterator[bytes]:
        """From one snapshot, on a connection of its own: a slow reader holds it until the end."""
        held, size = list[str](), 0
        async with self.database.long_snapshot() as tx:
            async for text in write(tx, period):
                held.append(text)
                size += len(text)
                if size >= PART:
                    yield "".join(held).encode()
                    held, size = [], 0
        yield "".join(held).encode()

    async def _page(self, viewer: OperatorViewer, month: date) -> Response:
        period = read_journal.month_period(viewer.mode, month)
        async with self.database.connection() as connection:
            points = await read_journal.list_open_points_any_account(connection, period)
            last_booking = await read_journal.find_last_booking_any_account(connection, viewer.mode)
            totals = await read_journal.find_totals(connection, viewer.mode, month)
            doctor = await find_last_run(connection)
            beginning = await read_journal.find_beginning_any_account(connection)
            names = await name_actors(connection, [None if totals is None else totals.computed_by])
        last_day = (period.end.date()).fromordinal(period.end.date().toordinal() - 1)
        return self.layout.page(
            viewer,
            "operator_month_end.html",
            Form(),
            month=month,
            months=self._months(beginning),
            is_over=self.clock() >= period.end,
            last_day=last_day,
            points=[(point, *_as_text(point.kind, point.count)) for point in points],
            last_booking=last_booking,
            is_booked=last_booking is not None and last_booking >= last_day,
            doctor=doctor,
            totals=_by_currency(totals),
            computed=totals,
            computed_by="" if totals is None else names.get(totals.computed_by, ""),
            is_stale=totals is not None and totals.computed_at < period.end,
        )

    def _month(self, request: Request) -> date:
        """A month that has begun. Raises DashboardPageNotFound."""
        month = _read_month(request.path("month"))
        if month is None or month > self._this_month():
            raise DashboardPageNotFound
        return month

    def _this_month(self) -> date:
        return self.clock().astimezone(UTC).date().replace(day=1)

    def _months(self, beginning: datetime | None) -> list[date]:
        """The newest first, not before anything was booked."""
        months = [self._this_month()]
        first = months[0] if beginning is None else beginning.astimezone(UTC).date().replace(day=1)
        while len(months) < MONTHS and months[-1] > first:
            months.append(_before(months[-1]))
        return months


def _by_currency(totals: read_journal.MonthTotals | None) -> list[tuple[str, list[object], int, int]]:
    """For each currency its accounts, and the sums of debits and credits, which are equal."""
    found: list[tuple[str, list[object], int, int]] = []
    for currency in sorted({each.currency for each in totals.totals}) if totals else ():
        rows = [each for each in (totals.totals if totals else ()) if each.currency == currency]
        debit, credit = sum(each.debit_minor for each in rows), sum(each.credit_minor for each in rows)
        found.append((currency, list(rows), debit, credit))
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


async def _journal_csv(tx: Connection, period: read_journal.Period) -> Text:
    yield csv_head()
    async for entry in read_journal.read_entries_any_account(tx, period):
        yield csv_entry(entry)


async def _journal_beancount(tx: Connection, period: read_journal.Period) -> Text:
    """Begins with the balances before the month, so that the text is complete by itself."""
    yield beancount_head(period.start.date())
    opening = await read_journal.read_opening_any_account(tx, read_journal.Period(period.mode, BEGINNING, period.start))
    if opening is not None:
        yield beancount_entry(opening)
    async for entry in read_journal.read_entries_any_account(tx, period):
        yield beancount_entry(entry)


async def _balances_csv(tx: Connection, period: read_journal.Period) -> Text:
    """What the month changed, and the balances at its end."""
    changed = {
        (each.account, each.currency): each.amount_minor
        for each in await read_journal.sum_balances_any_account(tx, period)
    }
    until = read_journal.Period(period.mode, BEGINNING, period.end)
    yield csv_text([("account", "currency", "change", "balance")])
    for each in await read_journal.sum_balances_any_account(tx, until):
        change = changed.pop((each.account, each.currency), 0)
        amounts = (format_money(minor, each.currency) for minor in (change, each.amount_minor))
        yield csv_text([(each.account, each.currency, *amounts)])
    for (account, currency), minor in changed.items():
        yield csv_text([(account, currency, format_money(minor, currency), format_money(0, currency))])


async def _sales_csv(tx: Connection, period: read_journal.Period) -> Text:
    yield sales_head()
    async for batch in read_sales_any_account(tx, period.mode, period.start.date(), period.end.date()):
        for document in batch:
            yield sales_rows(document)


EXPORTS: dict[str, tuple[str, Callable[[Connection, read_journal.Period], Text]]] = {
    "journal.csv": ("text/csv", _journal_csv),
    "journal.beancount": ("text/plain", _journal_beancount),
    "balances.csv": ("text/csv", _balances_csv),
    "sales.csv": ("text/csv", _sales_csv),
}
