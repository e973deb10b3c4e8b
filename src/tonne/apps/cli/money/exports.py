"""tonne export"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TextIO

import click

from tonne.apps.cli.database import run_in_snapshot
from tonne.apps.cli.output import MoneyColumn, Output, ValueColumn, output_options
from tonne.apps.cli.parameters import MODE, EnumChoice, creating
from tonne.money.accounting.books.chart import find_numbers
from tonne.money.accounting.journal import read_journal
from tonne.money.accounting.journal.export import beancount_entry, beancount_head, csv_entry, csv_head
from tonne.money.accounting.journal.model import JournalEntry, Posting
from tonne.platform.db.database import Connection
from tonne.platform.process.progress import progress
from tonne.platform.values.context import Mode


class JournalFormat(StrEnum):
    CSV = "csv"
    BEANCOUNT = "beancount"


class _Month(click.ParamType[datetime]):
    name = "month"

    def convert(self, value: object, _param: click.Parameter | None, _ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return datetime.strptime(str(value), "%Y-%m").replace(tzinfo=UTC)
        except ValueError:
            self.fail("expected a month such as 2026-11")


MONTH = _Month()
MODE_OPTION = click.option("--mode", type=MODE, default=Mode.LIVE.value, show_default=True, help="Whose books.")


@click.group("export")
def export_group() -> None:
    """Export the books: the journal and its balances."""


@export_group.command("journal")
@click.option("--month", type=MONTH, required=True, help="Month to export, in UTC: 2026-11.")
@MODE_OPTION
@click.option(
    "--format",
    "format_",
    type=EnumChoice(JournalFormat),
    default=JournalFormat.CSV.value,
    show_default=True,
    help="CSV, or the text of beancount.",
)
@click.option("--opening-balances", is_flag=True, help="Begin with an entry of the balances before the month.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write, instead of stdout."
)
def journal(month: datetime, mode: Mode, format_: JournalFormat, opening_balances: bool, output: Path | None) -> None:
    """Export the double-entry journal of a month.

    Debits are positive in beancount, and in a column of their own in CSV. Every entry sums to zero in every currency.
    What is booked never changes: a correction is another entry, which names the one that it corrects.
    """
    period = read_journal.month_period(mode, month.date())

    async def work(tx: Connection) -> int:
        count, days = 0, (period.end - period.start).days
        chart = await find_numbers(tx, period, since=read_journal.BEGINNING)

        def text_of(entry: JournalEntry) -> str:
            if format_ is JournalFormat.CSV:
                return csv_entry(entry, None if chart is None else chart.number)
            return beancount_entry(entry)

        with opened(output) as stream:
            if format_ is JournalFormat.CSV:
                stream.write(csv_head())
            else:
                until = read_journal.Period(mode, read_journal.BEGINNING, period.end)
                codes = {each.tax_code for each in await read_journal.sum_turnover(tx, until)}
                stream.write(beancount_head(month.date(), codes - {""}, None if chart is None else chart.find_number))
            if opening_balances and (
                opening := await read_journal.read_opening(
                    tx, read_journal.Period(period.mode, read_journal.BEGINNING, month)
                )
            ):
                stream.write(text_of(opening))
            # A bar would be drawn between the entries on a terminal.
            with progress("Writing the journal", days if output else 0) as advance:
                day = 0
                async for entry in read_journal.read_entries_any_account(tx, period):
                    stream.write(text_of(entry))
                    count += 1
                    if entry.booked_on.day > day:
                        advance(entry.booked_on.day - day)
                        day = entry.booked_on.day
        return count

    # Part of it may have been written when a replica cancels a query.
    count = run_in_snapshot(work, repeatable=False)
    if output is not None:
        click.echo(f"{output}: {count:,} {'entry' if count == 1 else 'entries'}.")


@export_group.command("balances")
@click.option("--month", type=MONTH, help="Only what this month changed. Otherwise all entries so far.")
@MODE_OPTION
@output_options
def balances(month: datetime | None, mode: Mode, output: Output) -> None:
    """Show the balance of each account of the journal, per currency."""
    always = read_journal.Period(mode, read_journal.BEGINNING, datetime.max.replace(tzinfo=UTC))
    period = always if month is None else read_journal.month_period(mode, month.date())

    async def work(tx: Connection) -> list[Posting]:
        return await read_journal.sum_balances(tx, period)

    found = run_in_snapshot(work)
    columns: list[ValueColumn[Posting]] = [
        ValueColumn("account", lambda posting: posting.account_name),
        MoneyColumn("balance", lambda posting: posting.amount_minor, lambda posting: posting.currency),
    ]
    output.print_rows(found, columns, empty="Nothing is booked.")


@contextmanager
def opened(output: Path | None, encoding: str = "utf-8") -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    with creating(output), output.open("x", encoding=encoding, errors="replace", newline="") as stream:
        yield stream
