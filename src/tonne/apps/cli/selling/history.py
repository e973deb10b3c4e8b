"""tonne history"""

from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, run_for_account, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import FILE, read_file, reported_errors
from tonne.selling.accounts.import_history import (
    HistoryImport,
    import_history,
    list_imports_any_account,
    undo_import_any_account,
)

COLUMNS: tuple[ValueColumn[HistoryImport], ...] = (
    *columns("import_id: import", "account_id: account", "mode", "imported_at: imported", "orders_count: orders"),
    *columns("first_on: from", "last_on: to"),
    ValueColumn("providers", lambda each: each.providers, shrinks=True),
    *columns("organisation_id", in_table=False),
)


@click.group()
def history() -> None:
    """Import orders of former providers."""


@history.command("import")
@click.option("--account", "account_id", required=True, help="The account that placed the orders.")
@click.option("--dry-run", is_flag=True, help="Check the file, and import nothing.")
@FILE
def import_(account_id: str, *, dry_run: bool, file: Path) -> None:
    """Import the orders of a former provider from a CSV FILE.

    The columns are date, external_id, quantity (tonnes) and provider, and optionally amount, currency and link (https).
    The orders are shown under "Before Tonne", and counted nowhere. Every row that is refused is listed with the reason,
    and the exit code is 1; the other rows are imported. A row whose provider and external_id the account already has is
    refused.
    """
    with reported_errors():
        report = run_for_account(account_id, import_history, read_file(file), by=ACTOR.now(), apply=not dry_run)
    for error in report.errors:
        click.echo(str(error), err=True)
    if dry_run:
        click.echo(f"{report.orders_count:,} order(s) would be imported. Nothing was changed (--dry-run).")
    elif report.import_id is not None:
        click.echo(
            f"Imported {report.orders_count:,} order(s). To remove them again: tonne history undo {report.import_id}"
        )
    if report.errors:
        raise click.ClickException(f"{report.refused_count:,} row(s) refused: correct them, then import only these.")


@history.command("list")
@output_options
def list_(output: Output) -> None:
    """List the imports of all accounts, newest first."""
    empty = "Nothing was imported: see `tonne history import --help`."
    output.print_rows(run_in_transaction(list_imports_any_account), COLUMNS, empty=empty)


@history.command("undo")
@click.argument("import_id")
def undo(import_id: str) -> None:
    """Remove the orders of an import."""
    undone = run_in_transaction(undo_import_any_account, import_id, by=ACTOR.now())
    click.echo(f"{undone.orders_count:,} order(s) of {', '.join(undone.providers)} removed.")
