"""tonne payout"""

from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import FILE, MODE, read_file, reported_errors
from tonne.money.accounting.journal.import_payouts import ListedPayout, import_payouts, list_payouts, match_payout
from tonne.platform.values.context import Mode

COLUMNS: tuple[ValueColumn[ListedPayout], ...] = (
    *columns("payout_id: payout", "paid_on", "amount_minor", "fee_minor", "transfer_id: transfer"),
    ValueColumn("id", lambda payout: payout.id, in_table=False),
)


@click.group()
def payout() -> None:
    """Import payouts of the card gateway and fees, for the journal."""


@payout.command("import")
@FILE
def import_(file: Path) -> None:
    """Import payouts and fees from a CSV FILE: all or nothing.

    The columns are payout_id, paid_on, currency, amount (what arrived at the bank) and fee (what the gateway kept).
    Importing a payout again changes nothing.
    """
    with reported_errors():
        result = run_in_transaction(import_payouts, Mode.LIVE, read_file(file), by=ACTOR.now())
    click.echo(f"{result.added} imported, {result.known} imported before.")


@payout.command("match")
@click.argument("payout_id", metavar="PAYOUT")
@click.argument("transfer_id", metavar="TRANSFER")
def match(payout_id: str, transfer_id: str) -> None:
    """Match a PAYOUT with the bank TRANSFER that shows it."""
    matched = run_in_transaction(match_payout, payout_id, transfer_id, by=ACTOR.now())
    click.echo(f"Payout {matched.payout_id} is matched with transfer {transfer_id}.")


@payout.command("list")
@click.option("--mode", type=MODE, default=Mode.LIVE.value, show_default=True, help="Whose payouts.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many to list.")
@output_options
def list_(mode: Mode, limit: int, output: Output) -> None:
    """List payouts, newest first."""
    found = run_in_transaction(list_payouts, mode, limit)
    output.print_rows(found, COLUMNS, empty="No payout was imported.")
