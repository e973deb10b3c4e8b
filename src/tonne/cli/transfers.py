"""tonne transfer"""

import click

from tonne.base.clock import utc_now
from tonne.base.scope import Mode
from tonne.cli.database import ACTOR, run_in_transaction
from tonne.cli.output import print_table
from tonne.cli.parameters import MODE
from tonne.invoices.resolve_transfer import resolve_transfer
from tonne.invoices.transfer_store import list_unresolved_any_account
from tonne.sheets.errors import quoted

MAX_NOTE = 500


@click.group()
def transfer() -> None:
    """List and resolve bank transfers that match no open invoice."""


@transfer.command("list")
@click.option("--mode", type=MODE, help="Show only transfers of this mode.")
def list_(mode: str | None) -> None:
    """List the transfers that nobody has resolved, oldest first.

    The outcome is unknown (no invoice, or several, are named), not_open (the invoice is paid or cancelled), over (the
    invoice is paid, and the rest is too much) or under (a part of an invoice that was then cancelled).
    """
    found = run_in_transaction(list_unresolved_any_account, None if mode is None else Mode(mode))
    rows = [
        (
            *(each.id, str(each.booked_on), each.outcome, each.amount, quoted(each.payer), quoted(each.reference)),
            each.invoice_reference or "-",
        )
        for each in found
    ]
    if not rows:
        click.echo("No unresolved transfers.")
        return
    print_table(("transfer", "booked", "outcome", "amount", "payer", "reference", "invoice"), rows)


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
