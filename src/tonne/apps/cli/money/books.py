"""tonne books"""

from datetime import datetime
from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, run_in_snapshot, run_in_transaction, settings_from_environment
from tonne.apps.cli.money.exports import MODE_OPTION, MONTH, opened
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import FILE, REASON, read_file, reported_errors
from tonne.apps.cli.selling.login import approve_or_link
from tonne.money.accounting.books.chart import Office, find_chart, import_chart
from tonne.money.accounting.books.check_month import check_month
from tonne.money.accounting.books.close_month import approve_reopening, close_month, request_reopening
from tonne.money.accounting.books.files import FILES
from tonne.money.accounting.books.month_store import ClosedMonth, list_closed
from tonne.money.accounting.journal.read_journal import month_period
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.catalogue.prices.reference_rates import EURO, home_currency_of
from tonne.selling.users.approvals import Approver

_MONTHS: tuple[ValueColumn[ClosedMonth], ...] = (
    ValueColumn("month", lambda each: each.name),
    *columns("closed_at: closed", "closed_by: by"),
    ValueColumn("numbers", lambda each: ", ".join(f"{one.first} to {one.last}" for one in each.number_ranges)),
    ValueColumn("reopening", lambda each: each.reopen_reason),
    ValueColumn("files", lambda each: each.digests, in_table=False),
)
_MONTH = click.argument("month", type=MONTH)


@click.group()
def books() -> None:
    """Close and reopen months, and write the files for an accountant."""


@books.command("check")
@_MONTH
@MODE_OPTION
def check(month: datetime, mode: Mode) -> None:
    """Say what a MONTH needs before it can be closed."""
    found = run_in_transaction(check_month, month_period(mode, month.date()), utc_now())
    for said in (*found.refusals, *found.warnings):
        click.echo(said)
    if found.refusals:
        raise SystemExit(1)
    click.echo(f"{month:%Y-%m} is closed." if found.closed else f"{month:%Y-%m} can be closed.")


@books.command("close")
@_MONTH
@MODE_OPTION
def close(month: datetime, mode: Mode) -> None:
    """Close a MONTH, in which nothing is booked any more.

    What is found later is booked on the first open day, and names what it corrects. It is refused while a paid order
    has no document, the tax of the documents and of the journal differ, or an earlier month is open.
    """
    settings = settings_from_environment()
    closed = run_in_transaction(close_month, mode, month.date(), settings=settings, by=ACTOR.now())
    click.echo(f"{closed.name} is closed.")
    for each in closed.number_ranges:
        click.echo(f"{each.first} to {each.last}: {each.count:,} documents.")


@books.command("reopen")
@_MONTH
@MODE_OPTION
@click.option("--reason", type=REASON, required=True, help="Why, for the audit log.")
def reopen(month: datetime, mode: Mode, reason: str) -> None:
    """Ask to reopen the last closed MONTH. Another person must approve it."""
    closed = run_in_transaction(request_reopening, mode, month.date(), reason, by=ACTOR.now())
    click.echo(f"Another person must approve it: run `tonne books approve-reopening {closed.name}` for the link.")


@books.command("approve-reopening")
@_MONTH
@MODE_OPTION
def approve(month: datetime, mode: Mode) -> None:
    """Print the link to approve that a MONTH is reopened.

    With TONNE_APPROVALS_BY=token, and after `tonne login`, the command approves it.
    """

    async def find_page(_: Connection) -> tuple[Mode, str]:
        return mode, f"month-end/{month:%Y-%m}"

    async def work(tx: Connection, approver: Approver) -> bool:
        return await approve_reopening(tx, mode, month.date(), approver=approver, now=utc_now())

    made = approve_or_link(find_page, work)
    if made is not None:
        then = "is open again" if made else "waits for another person, who must approve it, too"
        click.echo(f"{month:%Y-%m} {then}.")


@books.command("list")
@MODE_OPTION
@output_options
def list_(mode: Mode, output: Output) -> None:
    """List closed months with the digests of their files."""
    output.print_rows(run_in_transaction(list_closed, mode), _MONTHS, empty="No month is closed.")


@books.command("export")
@_MONTH
@click.argument("name", metavar="NAME", type=click.Choice([*FILES]))
@MODE_OPTION
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File to write, instead of stdout."
)
def export(month: datetime, name: str, mode: Mode, output: Path | None) -> None:
    """Write a file of a MONTH. That of a closed month has the same bytes every time.

    NAME is journal.csv, journal.beancount, balances.csv, sales.csv, oss.csv or datev.csv.
    """

    async def work(tx: Connection) -> None:
        with opened(output, FILES[name].encoding) as stream:
            async for text in FILES[name].write(tx, month_period(mode, month.date())):
                stream.write(text)

    run_in_snapshot(work, repeatable=False)


@books.group("chart")
def chart() -> None:
    """The chart of accounts of your accountant."""


@chart.command("import")
@FILE
@click.option("--consultant", type=click.IntRange(1, 9_999_999), required=True, help="Number of the office (Berater).")
@click.option("--client", type=click.IntRange(1, 99_999), required=True, help="Your number there (Mandant).")
@click.option("--year-begins", type=click.IntRange(1, 12), default=1, show_default=True, help="Month.")
def import_(file: Path, consultant: int, client: int, year_begins: int) -> None:
    """Import a chart from a CSV FILE, instead of the one for open months.

    The columns are account (of the journal, or Transit), tax_code (empty for all), number, name and bu_key. A closed
    month keeps its chart. Examples are in docs/charts: your adviser knows the right numbers.
    """
    with reported_errors():
        currency = home_currency_of(settings_from_environment()) or EURO
        office = Office(consultant, client, year_begins, currency)
        lines = run_in_transaction(import_chart, read_file(file), office, by=ACTOR.now())
    click.echo(f"{len(lines)} accounts imported.")


@chart.command("show")
@output_options
def show(output: Output) -> None:
    """Show the chart for open months."""
    found = run_in_transaction(find_chart)
    lines = () if found is None else found.lines
    output.print_rows(lines, columns("account", "tax_code", "number", "name", "bu_key"), empty="There is no chart.")
