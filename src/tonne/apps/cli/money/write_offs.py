"""tonne invoice write-off, approve-write-off, reinstate, write-offs"""

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.money.credit_notes import MAX_REASON
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE
from tonne.money.invoices.find_invoice import find_by_number_any_account
from tonne.money.invoices.write_off import approve_write_off, reinstate_invoice, write_off_invoice
from tonne.money.invoices.write_off_store import WriteOff, WriteOffState, list_write_offs_any_account
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Mode, utc_now

_mode_of_number = click.option("--mode", type=MODE, help="Mode of the invoice. Not needed with a full reference.")
WRITE_OFFS: tuple[ValueColumn[WriteOff], ...] = (
    ValueColumn("invoice", lambda w: w.invoice_reference),
    ValueColumn("state", lambda w: w.state),
    *columns("amount_minor", "recovered_minor", "booked_at: booked"),
    ValueColumn("reason", lambda w: w.reason, shrinks=True),
    *columns("requested_by", "requested_at", "approved_by", "releases_credit", "undone_at", in_table=False),
    *columns("undone_by", "undo_reason", "organisation_id", in_table=False),
)


def _reason(text: str) -> str:
    reason = text.strip()
    if not 1 <= len(reason) <= MAX_REASON:
        raise click.BadParameter(f"expected 1 to {MAX_REASON} characters", param_hint="--reason")
    return reason


@click.command("write-off")
@click.argument("number")
@_mode_of_number
@click.option("--reason", required=True, help="Why it is not expected to be paid, for the audit log.")
@click.option("--release-credit", is_flag=True, help="Its orders no longer use the credit limit of their account.")
def write_off(number: str, mode: str | None, reason: str, *, release_credit: bool) -> None:
    """Write off an invoice that nobody is expected to pay. NUMBER is 123 or TN-LIVE-000123.

    Its orders must have been fulfilled. The customer gets no mail and still owes the money: what arrives later pays the
    invoice. To reduce what is owed, and the tax, issue a credit note with `tonne invoice credit`. Above the setting
    refund_approval_above a second person must approve it.
    """
    reason = _reason(reason)
    settings = settings_from_environment()

    async def work(tx: Connection) -> WriteOff:
        found = await find_by_number_any_account(tx, number, None if mode is None else Mode(mode))
        return await write_off_invoice(
            tx, found, reason=reason, releases_credit=release_credit, settings=settings, actor=ACTOR, now=utc_now()
        )

    made = run_in_transaction(work)
    if made.state is WriteOffState.APPROVAL:
        command = f"tonne invoice approve-write-off {made.invoice_reference}"
        click.echo(f"{made.amount} of invoice {made.invoice_reference} wait for a second person: {command}")
    else:
        click.echo(f"{made.amount} of invoice {made.invoice_reference} are written off.")


@click.command("approve-write-off")
@click.argument("number")
@_mode_of_number
def approve(number: str, mode: str | None) -> None:
    """Approve the write-off of another person. NUMBER is 123 or TN-LIVE-000123."""

    async def work(tx: Connection) -> WriteOff:
        found = await find_by_number_any_account(tx, number, None if mode is None else Mode(mode))
        return await approve_write_off(tx, found, actor=ACTOR, now=utc_now())

    made = run_in_transaction(work)
    click.echo(f"{made.amount} of invoice {made.invoice_reference} are written off.")


@click.command("reinstate")
@click.argument("number")
@_mode_of_number
@click.option("--reason", required=True, help="Why, for the audit log.")
def reinstate(number: str, mode: str | None, reason: str) -> None:
    """Undo a write-off, or withdraw one that waits. NUMBER is 123 or TN-LIVE-000123."""
    reason = _reason(reason)

    async def work(tx: Connection) -> WriteOff:
        found = await find_by_number_any_account(tx, number, None if mode is None else Mode(mode))
        return await reinstate_invoice(tx, found, reason=reason, actor=ACTOR, now=utc_now())

    undone = run_in_transaction(work)
    if undone.state is WriteOffState.APPROVAL:
        click.echo(f"Invoice {undone.invoice_reference} is not written off.")
    else:
        left = f"{format_money(undone.left_minor, undone.currency)} {undone.currency}"
        click.echo(f"{left} of invoice {undone.invoice_reference} are expected to be paid again.")


@click.command("write-offs")
@click.option("--mode", type=MODE, default=Mode.LIVE.value, show_default=True, help="Mode of the invoices.")
@click.option(
    "--state", type=click.Choice([state.value for state in WriteOffState]), help="Show only those in this state."
)
@click.option("--org", "organisation_id", help="Only this organisation.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum number.")
@output_options
def write_offs(mode: str, state: str | None, organisation_id: str | None, limit: int, output: Output) -> None:
    """List written-off invoices and what was paid of them.

    Newest first.
    """
    requested = None if state is None else WriteOffState(state)
    found = run_in_transaction(
        list_write_offs_any_account, Mode(mode), state=requested, organisation_id=organisation_id, limit=limit
    )
    output.print_rows(found, WRITE_OFFS, empty="No write-offs.")
