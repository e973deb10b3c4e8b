"""tonne einvoice"""

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import check_text
from tonne.money.invoices.einvoices.delivery_store import Delivery, list_deliveries_any_account
from tonne.money.invoices.einvoices.network import NetworkAnswer, NetworkOutcome
from tonne.money.invoices.einvoices.send_einvoices import record_answer

COLUMNS: tuple[ValueColumn[Delivery], ...] = (
    *columns("number", "state", "receiver", "created_at: created", "answered_at: answered"),
    ValueColumn("reason", lambda each: each.reason, shrinks=True),
    *columns("format", "organisation_id", "document_id", in_table=False),
)


@click.group()
def einvoice() -> None:
    """See what became of electronic invoices."""


@einvoice.command("list")
@click.option("--all", "with_accepted", is_flag=True, help="Also those that were accepted.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Show at most so many.")
@output_options
def list_(limit: int, output: Output, *, with_accepted: bool) -> None:
    """List electronic invoices that were not accepted yet, newest first."""
    found = run_in_transaction(list_deliveries_any_account, limit, with_accepted=with_accepted)
    output.print_rows(found, COLUMNS, empty="No electronic invoices.")


@einvoice.command("delivered")
@click.argument("number")
def delivered(number: str) -> None:
    """Record that the receiver accepted an electronic invoice. NUMBER is TN-LIVE-000123."""
    run_in_transaction(record_answer, number, NetworkAnswer(NetworkOutcome.ACCEPTED), by=ACTOR.now())
    click.echo(f"{number}: accepted.")


@einvoice.command("refused")
@click.argument("number")
@click.option("--reason", required=True, help="What the receiver or the network said.")
def refused(number: str, reason: str) -> None:
    """Record that an electronic invoice was refused. NUMBER is TN-LIVE-000123.

    The document stays as it is. `tonne doctor` names it until you record that it was accepted.
    """
    answer = NetworkAnswer(NetworkOutcome.REFUSED, check_text(reason, "--reason"))
    run_in_transaction(record_answer, number, answer, by=ACTOR.now())
    click.echo(f"{number}: refused.")
