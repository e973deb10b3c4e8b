"""tonne invoice ageing, tonne invoice statement"""

from datetime import UTC, date
from pathlib import Path

import click

from tonne.apps.cli.database import run_in_transaction, settings_from_environment
from tonne.apps.cli.output import Format, MoneyColumn, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE
from tonne.money.accounting.reports import account_statement
from tonne.money.accounting.reports.due_buckets import AgedDebt, list_aged_debts
from tonne.money.accounting.reports.statement_store import StatementEntry
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, Tenant, utc_now
from tonne.selling.accounts.lookup import require_organisation

_DAY = click.DateTime(formats=["%Y-%m-%d"])
_AGED: tuple[ValueColumn[AgedDebt], ...] = (
    ValueColumn("organisation_name", lambda d: d.organisation_name, head="organisation", shrinks=True),
    ValueColumn("invoices", lambda d: d.invoices, align_right=True),
    MoneyColumn("up_to_30_days", lambda d: d.up_to_30_minor, lambda d: d.currency, head="0-30 days"),
    MoneyColumn("up_to_60_days", lambda d: d.up_to_60_minor, lambda d: d.currency, head="31-60"),
    MoneyColumn("up_to_90_days", lambda d: d.up_to_90_minor, lambda d: d.currency, head="61-90"),
    *columns("older_minor: 90+", "total_minor", "overdue_minor", "written_off_minor"),
    ValueColumn("organisation_id", lambda d: d.organisation_id, in_table=False),
)


@click.command("ageing")
@click.option("--mode", type=MODE, default=Mode.LIVE.value, show_default=True, help="Mode of the invoices.")
@click.option("--org", "organisation_id", help="Only this organisation.")
@output_options
def ageing(mode: Mode, organisation_id: str | None, output: Output) -> None:
    """List what organisations owe, by age.

    The age is in days since the invoice was issued. Part payments and credit notes are subtracted. Overdue is the part
    after its due date. What was written off is in a column of its own and in none of the others.
    """
    today = utc_now().astimezone(UTC).date()
    found = run_in_transaction(list_aged_debts, mode, today, organisation_id)
    output.print_rows(found, _AGED, empty="Nothing is owed.")


class _Line:
    """A line of the table: an entry, or the balance at the start or the end."""

    def __init__(
        self, statement: account_statement.AccountStatement, entry: StatementEntry | None, kind: str, on: date
    ) -> None:
        balance = statement.opening_minor if kind == "opening_balance" else statement.closing_minor
        self.currency = statement.currency
        self.on, self.kind = on, kind
        self.reference = None if entry is None else entry.reference
        self.text = None if entry is None else entry.text
        self.amount = None if entry is None else account_statement.signed_amount(entry.amount_minor, self.currency)
        self.balance = account_statement.signed_amount(balance if entry is None else entry.balance_minor, self.currency)


_LINES: tuple[ValueColumn[_Line], ...] = (
    ValueColumn("on", lambda line: line.on, head="date"),
    ValueColumn("kind", lambda line: line.kind, head="entry", show=lambda line: line.kind.replace("_", " ")),
    ValueColumn("reference", lambda line: line.reference),
    ValueColumn("text", lambda line: line.text, shrinks=True),
    ValueColumn("amount", lambda line: line.amount, align_right=True),
    ValueColumn("balance", lambda line: line.balance, align_right=True),
    ValueColumn("currency", lambda line: line.currency),
)


@click.command("statement")
@click.argument("organisation_id")
@click.option("--from", "first_day", type=_DAY, required=True, help="First day, such as 2026-01-01 (UTC).")
@click.option("--to", "last_day", type=_DAY, required=True, help="Last day (UTC).")
@click.option("--mode", type=MODE, default=Mode.LIVE.value, show_default=True, help="Mode of the invoices.")
@click.option(
    "--pdf",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write a PDF for each currency to this folder.",
)
@output_options
def statement(
    organisation_id: str, *, first_day: date, last_day: date, mode: Mode, folder: Path | None, output: Output
) -> None:
    """Print an organisation's statement of account.

    It has the opening balance, the invoices, credit notes, payments and refunds of the period, and the closing balance.
    Write-offs are listed here, but not in the PDF, which is for the customer: what is written off is still owed.
    """
    first, last = _day(first_day), _day(last_day)
    if last < first:
        raise click.BadParameter("must not be before --from", param_hint="--to")
    settings = settings_from_environment()

    async def work(
        tx: Connection,
    ) -> list[tuple[account_statement.AccountStatement, account_statement.PrintedStatement]]:
        await require_organisation(tx, organisation_id)
        made = await account_statement.make_statements(tx, Tenant(organisation_id, mode), first, last)
        return [(each, await account_statement.print_statement(tx, each, organisation_id, settings)) for each in made]

    made = run_in_transaction(work)
    lines = [line for each, _ in made for line in _lines(each)]
    output.print_rows(lines, _LINES, empty="The organisation was never billed.")
    if folder is not None:
        for each, printed in made:
            path = folder / f"statement-{each.currency}-{first}-{last}.pdf"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(account_statement.account_statement_pdf(printed))
            except OSError as error:
                raise click.ClickException(f"{path} cannot be written: {error.strerror}.") from error
            click.echo(f"{path} is written.", err=output.format is not Format.TABLE)


def _lines(made: account_statement.AccountStatement) -> list[_Line]:
    return [
        _Line(made, None, "opening_balance", made.first_day),
        *(_Line(made, entry, entry.kind, entry.on) for entry in made.entries),
        _Line(made, None, "closing_balance", made.last_day),
    ]


def _day(moment: date) -> date:
    return date(moment.year, moment.month, moment.day)
