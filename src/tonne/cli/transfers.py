"""tonne transfer"""

import click

from tonne.base.clock import utc_now
from tonne.base.scope import Mode
from tonne.cli.database import ACTOR, run_in_transaction
from tonne.cli.output import STATUS_STYLES, MoneyColumn, Output, TimeColumn, ValueColumn, output_options, print_rows
from tonne.cli.parameters import MODE
from tonne.invoices.resolve_transfer import resolve_transfer
from tonne.invoices.transfer_store import UnresolvedTransfer, list_unresolved_any_account
from tonne.sheets.errors import quoted

MAX_NOTE = 500
COLUMNS: tuple[ValueColumn[UnresolvedTransfer], ...] = (
    ValueColumn("id", lambda each: each.id, head="transfer"),
    TimeColumn("booked_on", lambda each: each.booked_on, head="booked"),
    ValueColumn("outcome", lambda each: each.outcome, styles=STATUS_STYLES),
    MoneyColumn("amount", lambda each: each.amount_minor, lambda each: each.currency),
    ValueColumn("payer", lambda each: each.payer, show=lambda each: quoted(each.payer), shrinks=True),
    ValueColumn("reference", lambda each: each.reference, show=lambda each: quoted(each.reference), shrinks=True),
    ValueColumn("invoice_number", lambda each: each.invoice_reference, head="invoice"),
    ValueColumn("mode", lambda each: each.mode, in_table=False),
    ValueColumn("organisation_id", lambda each: each.organisation_id, in_table=False),
)


@click.group()
def transfer() -> None:
    """List and resolve bank transfers that match no open invoice."""


@transfer.command("list")
@click.option("--mode", type=MODE, help="Show only transfers of this mode.")
@output_options
def list_(mode: str | None, output: Output) -> None:
    """List the transfers that nobody has resolved, oldest first.

    The outcome is unknown (no invoice, or several, are named), not_open (the invoice is paid or cancelled), over (the
    invoice is paid, and the rest is too much) or under (a part of an invoice that was then cancelled).
    """
    found = run_in_transaction(list_unresolved_any_account, None if mode is None else Mode(mode))
    print_rows(found, COLUMNS, output, empty="No unresolved transfers.")


@transfer.command("resolve")
@click.argument("transfer_id")
@click.option("--note", required=True, help="What was done, for the audit log: returned, settled TN-LIVE-000123.")
def resolve(transfer_id: str, note: str) -> None:
    """Record that a transfer was dealt with. Moves no money.

    Before, return the money, or settle the invoice that it pays with `tonne invoice settle`.
    """
    if not note.strip() or len(note.strip()) > MAX_NOTE:
        raise click.BadParameter(f"expected 1 to {MAX_NOTE} characters", param_hint="--note")
    found = run_in_transaction(resolve_transfer, transfer_id, note.strip(), actor=ACTOR, now=utc_now())
    click.echo(f"Transfer {found.id} of {found.amount} is resolved.")
