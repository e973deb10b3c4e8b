"""What customers owe, by age, and lists of invoices."""

from datetime import date
from typing import Any

from tonne.apps.dashboard.list_place import read_day
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.apps.lookup.money_counts import count_open_money
from tonne.money.accounting.reports.due_buckets import (
    BucketSum,
    DueBucket,
    list_bucket_any_account,
    sum_buckets_any_account,
)
from tonne.money.bank.assignment_store import sum_received_any_account
from tonne.money.invoices.find_invoice import find_by_number_any_account
from tonne.money.invoices.model import describe_invoice
from tonne.money.invoices.store import list_numbered_any_account
from tonne.platform.db.database import Connection
from tonne.platform.http.route import Response
from tonne.platform.values.errors import TonneError
from tonne.platform.web.render import see_other
from tonne.selling.accounts.directory import find_names_any_account

PAGE = 30


class MoneyPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(pages={"/money": self.show, "/money/invoices": self.list_invoices})

    async def show(self, viewer: OperatorViewer, form: Form | None = None, number: str = "") -> Response:
        async with self.database.connection() as connection:
            sums = await sum_buckets_any_account(connection, viewer.mode, self.today())
            counts = await count_open_money(connection, viewer.mode)
        return self.layout.page(
            viewer,
            "operator_money.html",
            form,
            tab="owed",
            buckets=[bucket for bucket in DueBucket if bucket is not DueBucket.WRITTEN_OFF],
            written_off=[each for each in sums if each.bucket is DueBucket.WRITTEN_OFF],
            ageing=_by_currency(sums),
            counts=counts,
            number=number,
        )

    async def list_invoices(self, viewer: OperatorViewer) -> Response:
        """By bucket, or all; with `number`, the page of that invoice."""
        bucket, currency, after, number = viewer.request.query("bucket", "currency", "after", "number")
        if number is not None:
            return await self._find(viewer, number)
        async with self.database.connection() as connection:
            if bucket in set(DueBucket):
                values = await self._bucket(connection, viewer, DueBucket(bucket), currency, after)
            else:
                values = await self._all(connection, viewer, after)
        return self.layout.page(viewer, "operator_invoices.html", tab="owed", **values)

    async def _find(self, viewer: OperatorViewer, number: str) -> Response:
        form = Form()
        try:
            found = await self.database.run(find_by_number_any_account, number.strip(), viewer.mode)
        except TonneError:
            form.fail("number", f"There is no such invoice in {viewer.mode} mode. Check the number.")
            return await self.show(viewer, form, number)
        return see_other(f"{viewer.base}/money/invoices/{found.reference}")

    async def _bucket(
        self, connection: Connection, viewer: OperatorViewer, bucket: DueBucket, currency: str | None, after: str | None
    ) -> dict[str, Any]:
        found = await list_bucket_any_account(
            connection,
            viewer.mode,
            bucket,
            today=self.today(),
            currency=currency or None,
            after=read_day(after, date.min),
            limit=PAGE + 1,
        )
        last = found[PAGE - 1] if len(found) > PAGE else None
        chosen = f"bucket={bucket}" + (f"&currency={currency}" if currency else "")
        return {
            "bucket": bucket,
            "currency": currency or "",
            "open_invoices": found[:PAGE],
            "today": self.today(),
            "next_query": None if last is None else f"{chosen}&after={last.due_on}_{last.id}",
        }

    async def _all(self, connection: Connection, viewer: OperatorViewer, after: str | None) -> dict[str, Any]:
        before = int(after) if after is not None and after.isdecimal() and len(after) < 16 else None
        found = await list_numbered_any_account(connection, viewer.mode, before, PAGE + 1)
        shown = found[:PAGE]
        received = await sum_received_any_account(connection, [each.id for each in shown])
        names = await find_names_any_account(connection, [each.organisation_id for each in shown])
        today = self.today()
        rows = [
            (
                each,
                names.of(each.organisation_id),
                describe_invoice(each, received.get(each.id, 0), today, with_write_offs=True),
            )
            for each in shown
        ]
        return {
            "bucket": None,
            "rows": rows,
            "next_query": f"after={shown[-1].number}" if len(found) > PAGE else None,
        }


def _by_currency(sums: list[BucketSum]) -> list[tuple[str, dict[DueBucket, BucketSum], int]]:
    """A row for each currency: its sums by bucket, and what is overdue or not due together."""
    rows: dict[str, dict[DueBucket, BucketSum]] = {}
    for each in sums:
        if each.bucket is not DueBucket.WRITTEN_OFF:
            rows.setdefault(each.currency, {})[each.bucket] = each
    return [(currency, row, sum(each.open_minor for each in row.values())) for currency, row in rows.items()]
