"""The files of a month for an accountant, from stored rows: those of a closed month always have the same bytes."""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from tonne.money.accounting.books.chart import Chart, find_numbers, require_chart
from tonne.money.accounting.books.datev import ENCODING, datev_csv
from tonne.money.accounting.books.month_store import find_closed
from tonne.money.accounting.journal.export import beancount_entry, beancount_head, csv_entry, csv_head
from tonne.money.accounting.journal.model import TAX_ACCOUNTS
from tonne.money.accounting.journal.read_journal import (
    BEGINNING,
    Period,
    read_entries_any_account,
    read_opening,
    sum_turnover,
)
from tonne.money.accounting.reports.oss_report import find_oss_rates_any_account, oss_csv
from tonne.money.accounting.reports.sales_list import SalesText, read_sales_any_account, sales_head
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.csv_text import csv_text
from tonne.platform.values.amounts import format_money

Text = AsyncIterator[str]


class BookFile(NamedTuple):
    media_type: str
    title: str
    about: str
    write: Callable[[Connection, Period], Text]
    encoding: str = "utf-8"
    # Raises ChartIncomplete before the first line, as `write` does.
    check: Callable[[Connection, Period], Awaitable[object]] | None = None

    def encode(self, text: str) -> bytes:
        """A character that the encoding lacks becomes a question mark."""
        return text.encode(self.encoding, "replace")


async def journal_csv(tx: Connection, period: Period) -> Text:
    """With the numbers of the chart, if there is one. Raises ChartIncomplete before the first line."""
    chart = await find_numbers(tx, period)
    yield csv_head()
    async for entry in read_entries_any_account(tx, period):
        yield csv_entry(entry, None if chart is None else chart.number)


async def numbers_from_beginning(tx: Connection, period: Period) -> Chart | None:
    """The chart of the month, which also has the accounts of the opening balances. Raises ChartIncomplete."""
    return await find_numbers(tx, period, since=BEGINNING)


async def journal_beancount(tx: Connection, period: Period) -> Text:
    """Begins with the balances before the month, so that the text is complete by itself. Raises ChartIncomplete."""
    chart = await numbers_from_beginning(tx, period)
    until = await sum_turnover(tx, Period(period.mode, BEGINNING, period.end))
    yield beancount_head(
        period.start.date(), {each.tax_code for each in until} - {""}, None if chart is None else chart.find_number
    )
    opening = await read_opening(tx, Period(period.mode, BEGINNING, period.start))
    if opening is not None:
        yield beancount_entry(opening)
    async for entry in read_entries_any_account(tx, period):
        yield beancount_entry(entry)


async def balances_csv(tx: Connection, period: Period) -> Text:
    """What the month changed, and the balances at its end."""
    changed = {(each.account_name, each.currency): each.balance_minor for each in await sum_turnover(tx, period)}
    yield csv_text([("account", "currency", "change", "balance", "home_currency", "home_balance")])
    for each in await sum_turnover(tx, Period(period.mode, BEGINNING, period.end)):
        change = changed.get((each.account_name, each.currency), 0)
        if change or each.balance_minor or each.home_minor:
            amounts = (format_money(minor, each.currency) for minor in (change, each.balance_minor))
            home = format_money(each.home_minor, each.home_currency) if each.home_currency else ""
            yield csv_text([(each.account_name, each.currency, *amounts, each.home_currency or "", home)])


async def sales_csv(tx: Connection, period: Period) -> Text:
    yield sales_head()
    closed = await find_closed(tx, period.mode, period.start.date())
    known_until = None if closed is None else closed.known_until
    sales, booked = SalesText(), Counter[tuple[str, str]]()
    async for batch in read_sales_any_account(tx, period.mode, *period.days, known_until):
        for document in batch:
            yield sales.rows(document)
    for each in await sum_turnover(tx, period):
        if each.account in TAX_ACCOUNTS:
            booked[each.currency, each.tax_code] -= each.balance_minor
    yield sales.totals(booked)


async def _oss(tx: Connection, period: Period) -> Text:
    """The rates of a closed month are those that were known when it was closed."""
    _, end = period.days
    closed = await find_closed(tx, period.mode, period.start.date())
    rates = closed.oss_rates if closed else await find_oss_rates_any_account(tx, period.mode, end)
    async for text in oss_csv(tx, period.mode, end, rates):
        yield text


FILES = {
    "journal.csv": BookFile(
        "text/csv", "Journal, CSV", "double entry, one row per posting", journal_csv, check=find_numbers
    ),
    "journal.beancount": BookFile(
        "text/plain",
        "Journal, beancount",
        "with the opening balances",
        journal_beancount,
        check=numbers_from_beginning,
    ),
    "balances.csv": BookFile(
        "text/csv",
        "Balances, CSV",
        "change in the month and balance at its end, per account and currency",
        balances_csv,
    ),
    "sales.csv": BookFile(
        "text/csv",
        "Sales and tax, CSV",
        "invoices and credit notes of the month, by treatment and rate of tax, with the tax in the books",
        sales_csv,
    ),
    "oss.csv": BookFile(
        "text/csv",
        "OSS, CSV",
        "tax of other countries in the quarter that ends with the month, by country and rate",
        _oss,
    ),
    "datev.csv": BookFile(
        "text/csv",
        "DATEV",
        "sums of each day by the numbers of your chart; not tried with DATEV",
        datev_csv,
        ENCODING,
        require_chart,
    ),
}


def file_name(name: str, period: Period) -> str:
    """DATEV reads only files whose names begin so."""
    return f"{'EXTF_' if name == 'datev.csv' else ''}{period.mode}-{period.start:%Y-%m}-{name}"


async def digest_of(tx: Connection, file: BookFile, period: Period) -> str:
    """The SHA-256 of the file. Call it in a transaction that reads one snapshot."""
    digest = hashlib.sha256()
    async for text in file.write(tx, period):
        digest.update(file.encode(text))
    return digest.hexdigest()
