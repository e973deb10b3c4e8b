"""The commands of `tonne transfer` for money that goes back."""

from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MAX_REASON, MODE, OUTPUT, check_text, write_file
from tonne.apps.cli.selling.login import approve_or_link
from tonne.money.bank.export_returns import ReturnFile, export_returns, find_return_file
from tonne.money.bank.return_store import list_open_returns_any_account
from tonne.money.bank.return_transfer import (
    ReturnTo,
    approve_return,
    cancel_return,
    confirm_return,
    lock_return,
    redirect_return,
    return_transfer,
)
from tonne.money.bank.transfer_model import BankReturn
from tonne.money.bank.transfer_store import find_transfers_any_account
from tonne.money.refunds.bank_refunds import fail_refund_return
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.values.amounts import DECIMALS, parse_decimal, scaled
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.users.approvals import Approver

RETURN_COLUMNS: tuple[ValueColumn[BankReturn], ...] = (
    *columns("id: return", "status", "amount_minor"),
    ValueColumn("to_iban", lambda each: each.to_iban or None, head="to account"),
    ValueColumn("to_name", lambda each: each.to_name, head="to", show=lambda each: quoted(each.to_name), shrinks=True),
    *columns("reason", "approved_by", shrinks=True),
    *columns("batch_id: batch", "created_at: planned"),
    *columns("transfer_id", "paid_with", "to_other_account", "created_by", "mode", in_table=False),
)
_NOTE = click.option("--note", required=True, help="What happened, for the audit log.")


@click.command("return")
@click.argument("transfer_id")
@click.option("--reason", required=True, help="Why the money goes back, for the audit log.")
@click.option("--amount", help="A part of what is left, such as 12.61. Without it, all.")
@click.option("--iban", help="Another account than the payer's. A second person must approve that.")
@click.option("--name", default="", help="The holder of the other account.")
def return_(transfer_id: str, reason: str, amount: str | None, iban: str | None, name: str) -> None:
    """Plan to return what is left of a transfer.

    The money goes to the account that it came from. `tonne transfer export-returns` then writes the payments for
    your bank.
    """
    settings = settings_from_environment()

    async def work(tx: Connection) -> BankReturn:
        [*found] = await find_transfers_any_account(tx, [transfer_id])
        minor = None if amount is None or not found else parse_amount(amount, found[0].currency)
        to = None if iban is None else ReturnTo(iban, name.strip())
        return await return_transfer(
            tx, transfer_id, minor, reason=check_text(reason, "--reason"), to=to, by=ACTOR.now()
        )

    planned = run_in_transaction(work)
    click.echo(f"Return {planned.id} of {planned.amount} is planned.")
    if planned.waits_for_approval(settings.return_approval_above):
        click.echo(f"Another person must approve it: tonne transfer approve {planned.id}")


@click.command("returns")
@click.option("--mode", type=MODE, help="Show only returns of this mode.")
@output_options
def returns(mode: Mode | None, output: Output) -> None:
    """List returns that are planned or exported."""
    limit = settings_from_environment().return_approval_above
    found = run_in_transaction(list_open_returns_any_account, mode)
    waits = ValueColumn[BankReturn](
        "waits_for_approval", lambda each: each.waits_for_approval(limit), head="unapproved"
    )
    output.print_rows(found, (*RETURN_COLUMNS[:3], waits, *RETURN_COLUMNS[3:]), empty="No open returns.")


@click.command("approve")
@click.argument("return_id")
def approve(return_id: str) -> None:
    """Print the link to approve a planned return.

    Needed for another account than the payer's, and above TONNE_RETURN_APPROVAL_ABOVE. With TONNE_APPROVALS_BY=token,
    and after `tonne login`, the command approves it.
    """

    async def find_page(tx: Connection) -> tuple[Mode, str]:
        return (await lock_return(tx, return_id)).mode, f"money/returns/{return_id}"

    async def work(tx: Connection, approver: Approver) -> BankReturn:
        return await approve_return(tx, return_id, approver=approver, now=utc_now())

    made = approve_or_link(find_page, work)
    if made is not None:
        then = "is approved" if made.approved_by else "waits for another person, who must approve it, too"
        click.echo(f"Return {made.id} of {made.amount} to {made.to_iban} {then}.")


@click.command("redirect-return")
@click.argument("return_id")
@click.option("--iban", required=True, help="The account to pay to.")
@click.option("--name", default="", help="The holder of the account. Without it, the payer.")
@click.option("--note", default="", help="Why, for the audit log.")
def redirect(return_id: str, iban: str, name: str, note: str) -> None:
    """Send a planned return to another account.

    Also if the payer's account is not known. A second person must approve that.
    """
    to = ReturnTo(iban, name.strip())
    found = run_in_transaction(redirect_return, return_id, to, note.strip()[:MAX_REASON], by=ACTOR.now())
    click.echo(f"Return {found.id} of {found.amount} goes to {found.to_iban}.")


@click.command("cancel-return")
@click.argument("return_id")
@_NOTE
def cancel(return_id: str, note: str) -> None:
    """Cancel a planned return. The money waits for a decision again."""
    found = run_in_transaction(cancel_return, return_id, check_text(note, "--note"), by=ACTOR.now())
    click.echo(f"Return {found.id} of {found.amount} is cancelled.")


@click.command("returned")
@click.argument("return_id")
@_NOTE
def returned(return_id: str, note: str) -> None:
    """Record that a return was paid.

    Only needed if no bank statement shows it: lines of imported statements with the id of the return do this by
    themselves.
    """
    settings = settings_from_environment()
    text = check_text(note, "--note")
    found = run_in_transaction(confirm_return, return_id, text, settings=settings, by=ACTOR.now())
    click.echo(f"Return {found.id} of {found.amount} has gone back.")


@click.command("return-failed")
@click.argument("return_id")
@_NOTE
@click.option("--transfer", "incoming_id", help="The transfer that brought the money back, if a statement shows it.")
def failed(return_id: str, note: str, incoming_id: str | None) -> None:
    """Record that the bank did not pay a return.

    Also for a payment that came back: name the transfer that brought it back, which is then dealt with. The money waits
    for a decision again: plan a new return, which gets a new id. A return that is part of a refund is planned again by
    a worker.
    """
    text = check_text(note, "--note")
    found = run_in_transaction(fail_refund_return, return_id, text, incoming_id=incoming_id, by=ACTOR.now())
    if found.invoice_id is None:
        click.echo(f"Return {found.id} of {found.amount} has failed. Plan it again with `tonne transfer return`.")
    else:
        click.echo(f"Return {found.id} of {found.amount} has failed. A worker plans the refund again.")


@click.command("export-returns")
@click.option("--mode", type=MODE, default="live", show_default=True, help="Mode of the transfers.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["sepa", "csv"]),
    default="sepa",
    show_default=True,
    help="SEPA pain.001, or CSV.",
)
@click.option("--currency", default="EUR", show_default=True, help="Currency of the returns. SEPA pays in EUR.")
@click.option("--batch", help="Write this batch again, unchanged, instead of a new one.")
@OUTPUT
def export(mode: Mode, format_: str, currency: str, batch: str | None, output: Path) -> None:
    """Write the planned returns into a file for your bank. Each is exported once."""
    settings = settings_from_environment()
    if currency not in DECIMALS:
        raise click.BadParameter("expected a code such as EUR", param_hint="--currency")

    async def work(tx: Connection) -> ReturnFile:
        if batch is not None:
            written = ReturnFile(batch, await find_return_file(tx, batch), [], [])
        else:
            written = await export_returns(tx, mode, currency, format_=format_, settings=settings, by=ACTOR.now())
        if written.batch_id is not None:
            # Inside the transaction: if the file cannot be written, nothing was exported.
            write_file(part, written.content)
        return written

    part = output.with_name(f"{output.name}.part")
    written = run_in_transaction(work)
    if written.batch_id is not None:
        # After the commit: a file whose returns are not recorded as exported would be followed by one that pays them
        # again.
        try:
            part.replace(output)
        except OSError as error:
            again = f"The returns are exported: write their file with --batch {written.batch_id}."
            raise click.ClickException(f"{output} cannot be written: {error.strerror}. {again}") from error
    for each, reason in written.left_out:
        click.echo(f"Left out: return {each.id} of {each.amount}, {reason}.", err=True)
    if written.batch_id is None:
        click.echo("Nothing to export.")
    else:
        count = len(written.exported)
        payments = sum(each.paid_with is None for each in written.exported)
        shared = f", {payments:,} {'payment' if payments == 1 else 'payments'}," if payments < count else ""
        total = "" if batch is not None else "1 return in " if count == 1 else f"{count:,} returns{shared} in "
        click.echo(f"Wrote {total}batch {written.batch_id} to {output}. Upload the file to your bank once.")


def parse_amount(text: str, currency: str) -> int:
    number = parse_decimal(text)
    minor = None if number is None else scaled(number, DECIMALS[currency])
    if not minor:
        raise click.BadParameter(f"expected an amount in {currency}, such as 12.61", param_hint="--amount")
    return minor


RETURN_COMMANDS = (return_, returns, approve, redirect, cancel, export, returned, failed)
