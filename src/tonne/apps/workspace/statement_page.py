"""The statement of account of an organisation, and the receipts of its card payments."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import UTC, date, datetime, timedelta

from msgspec import field

from tonne.apps.dashboard.list_place import place_of, read_moment
from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer, existing
from tonne.money.accounting.reports import statement_store
from tonne.money.accounting.reports.account_statement import (
    account_statement_pdf,
    print_statement,
    read_period,
    signed_amount,
)
from tonne.money.accounting.reports.organisation_documents import find_card_payment, list_card_payments
from tonne.money.invoices.documents.parties import seller_of
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.csv_text import csv_text
from tonne.platform.http.limits.fair_share import FairShare
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Request, Response
from tonne.platform.process.cost import give_place_back
from tonne.selling.users.model import Right
from tonne_verify.formulas import escape_formula

PAGE = 30
# Entries of each currency that the page lists. The CSV file has all.
SHOWN_ENTRIES = 300
# A PDF of more would take too long to render.
MAX_PDF_ENTRIES = 2_000
END = datetime(9999, 1, 1, tzinfo=UTC)
CSV_HEAD = ("date", "entry", "reference", "text", "amount", "balance", "currency")


# Files of one organisation that are sent at a time: each keeps a connection and a snapshot of the database, for as
# long as its reader takes. Others wait, and get 429.
FILES_AT_ONCE, FILE_WAITS_S = 2, 5.0


class StatementPage(DashboardPage, frozen=True):
    files: FairShare = field(default_factory=lambda: FairShare(FILES_AT_ONCE, FILE_WAITS_S))

    def section(self) -> OrganisationSection:
        pages = {
            "/statement": self.show,
            "/statement/csv": self.csv,
            "/statement/pdf/{currency}": self.pdf,
            "/receipts": self.list_receipts,
            "/receipts/{charge_id}": self.show_receipt,
        }
        return OrganisationSection(pages={path: (page, Right.VIEW) for path, page in pages.items()})

    async def show(self, viewer: MemberViewer) -> Response:
        form, days = self._period(viewer.request)
        return await self._page(viewer, form, days)

    async def csv(self, viewer: MemberViewer) -> Response:
        """All entries of the period, in parts, so that a long one needs little memory."""
        form, days = self._period(viewer.request)
        if form.faults:
            return await self._page(viewer, form, days)
        name = f"statement-{days[0]}-{days[1]}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "private, no-store"}
        return Response(b"", 200, b"text/csv; charset=utf-8", headers, stream=self._csv_parts(viewer, days))

    async def _csv_parts(self, viewer: MemberViewer, days: tuple[date, date]) -> AsyncGenerator[bytes]:
        give_place_back()
        await self.files.enter(viewer.organisation_id)
        try:
            async with self.database.long_snapshot() as tx:
                yield csv_text([CSV_HEAD]).encode()
                async for text in _entries(tx, viewer, days):
                    yield text.encode()
        finally:
            self.files.leave(viewer.organisation_id)

    async def pdf(self, viewer: MemberViewer) -> Response:
        form, days = self._period(viewer.request)
        currency = viewer.request.path("currency")
        async with self.database.long_snapshot() as tx:
            balances = await statement_store.sum_statement(tx, viewer.tenant, *days)
            requested = existing(next((each for each in balances if each.currency == currency), None))
            if requested.entries > MAX_PDF_ENTRIES:
                form.fail("from", "A PDF can have at most 2,000 entries. Choose a shorter period, or download the CSV.")
        if form.faults:
            return await self._page(viewer, form, days)
        async with self.database.long_snapshot() as tx:
            statement = await read_period(tx, viewer.tenant, days, requested)
            printed = await print_statement(tx, statement, viewer.organisation_id, self.settings)
        pdf = await in_turn(account_statement_pdf, printed)
        name = f"statement-{currency}-{days[0]}-{days[1]}.pdf"
        headers = {"Content-Disposition": f'inline; filename="{name}"', "Cache-Control": "private, no-store"}
        return Response(pdf, 200, b"application/pdf", headers)

    async def _page(self, viewer: MemberViewer, form: Form, days: tuple[date, date]) -> Response:
        statements: list[tuple[statement_store.StatementBalance, Sequence[statement_store.StatementEntry]]] = []
        async with self.database.long_snapshot() as tx:
            for balance in await statement_store.sum_statement(tx, viewer.tenant, *days):
                shown_days = days
                if balance.entries > SHOWN_ENTRIES:
                    last = await statement_store.find_day_of_entry(
                        tx, viewer.tenant, days=days, currency=balance.currency, place=SHOWN_ENTRIES
                    )
                    shown_days = (days[0], last)
                batches = statement_store.read_statement_entries(
                    tx, viewer.tenant, days=shown_days, balance=balance, limit=SHOWN_ENTRIES
                )
                statements.append((balance, [entry async for batch in batches for entry in batch]))
        return self.layout.page(
            viewer,
            "statement.html",
            form,
            statements=statements,
            first=days[0],
            last=days[1],
            due_on=_due_on,
            periods=_other_periods(days, self.today()),
        )

    def _period(self, request: Request) -> tuple[Form, tuple[date, date]]:
        """This month until today, unless the address says otherwise."""
        form, today = Form(), self.today()
        days = [today.replace(day=1), today]
        for place, (name, text) in enumerate(zip(("from", "to"), request.query("from", "to"), strict=True)):
            if not text:
                continue
            try:
                days[place] = date.fromisoformat(text)
            except ValueError:
                form.fail(name, "Enter a date, such as 2026-11-30.")
        if days[1] < days[0]:
            form.fail("to", "The last day is before the first.")
            days[1] = days[0]
        return form, (days[0], days[1])

    async def list_receipts(self, viewer: MemberViewer) -> Response:
        [after] = viewer.request.query("after")
        found = await self.database.run(list_card_payments, viewer.tenant, read_moment(after, END), PAGE + 1)
        shown = found[:PAGE]
        last = shown[-1] if len(found) > PAGE else None
        next_after = None if last is None else place_of(last.paid_at, last.id)
        return self.layout.page(viewer, "receipts.html", payments=shown, next_after=next_after)

    async def show_receipt(self, viewer: MemberViewer) -> Response:
        found = await self.find(find_card_payment, viewer.tenant, viewer.request.path("charge_id"))
        return self.layout.page(viewer, "card_receipt.html", payment=found, seller=seller_of(self.settings))


def _due_on(entry: statement_store.StatementEntry) -> date:
    """The day of the entry of an invoice, which its text states for files."""
    return date.fromisoformat(entry.text[-10:])


def _other_periods(days: tuple[date, date], today: date) -> list[tuple[str, date, date]]:
    """The months before and after the shown period, and its year, with their first and last days."""
    first = days[0].replace(day=1)
    found: list[tuple[str, date, date]] = []
    if first > date.min:
        last_before = first - timedelta(days=1)
        found.append((f"{last_before:%B %Y}", last_before.replace(day=1), last_before))
    if days[1] < today.replace(day=1):
        after = (days[1].replace(day=1) + timedelta(days=32)).replace(day=1)
        last_after = (after + timedelta(days=32)).replace(day=1) - timedelta(days=1)
        found.append((f"{after:%B %Y}", after, min(today, last_after)))
    found.append((f"All of {first.year}", date(first.year, 1, 1), date(first.year, 12, 31)))
    return [each for each in found if each[1:] != days]


async def _entries(tx: Connection, viewer: MemberViewer, days: tuple[date, date]) -> AsyncIterator[str]:
    for balance in await statement_store.sum_statement(tx, viewer.tenant, *days):
        currency = balance.currency
        opening, closing = (signed_amount(m, currency) for m in (balance.opening_minor, balance.closing_minor))
        yield csv_text([(days[0].isoformat(), "opening_balance", "", "", "", opening, currency)])
        batches = statement_store.read_statement_entries(tx, viewer.tenant, days=days, balance=balance, limit=None)
        async for batch in batches:
            yield csv_text(_csv_row(entry, currency) for entry in batch)
        yield csv_text([(days[1].isoformat(), "closing_balance", "", "", "", closing, currency)])


def _csv_row(entry: statement_store.StatementEntry, currency: str) -> tuple[str, ...]:
    return (
        *(entry.on.isoformat(), entry.kind, escape_formula(entry.reference), escape_formula(entry.text)),
        *(signed_amount(entry.amount_minor, currency), signed_amount(entry.balance_minor, currency), currency),
    )
