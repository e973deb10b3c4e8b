"""tonne transfer"""

from datetime import datetime

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.money.transfer_returns import RETURN_COLUMNS, RETURN_COMMANDS, parse_amount
from tonne.apps.cli.output import MoneyColumn, Output, Table, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MAX_REASON, MODE, check_text
from tonne.money.accounting.journal.import_payouts import reopen_and_unmatch
from tonne.money.accounting.matching.assign_transfer import assign_transfer, decide_doubtful, unassign_transfer
from tonne.money.bank.assignment_store import list_assignments_any_account
from tonne.money.bank.doubtful_store import DoubtfulLine, list_doubtful_any_account
from tonne.money.bank.errors import TransferNotFound
from tonne.money.bank.return_store import list_returns_of_transfer_any_account, resolve_transfer
from tonne.money.bank.transfer_model import WAITING_STATES, Assignment, BankReturn, Transfer, TransferState
from tonne.money.bank.transfer_store import find_transfers_any_account, list_transfers_any_account
from tonne.money.invoices.find_invoice import find_by_number_any_account
from tonne.money.invoices.model import Invoice
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.values.context import Mode

_NOTE = click.option("--note", required=True, help="What was done and why, for the audit log.")

COLUMNS: tuple[ValueColumn[Transfer], ...] = (
    *columns("id: transfer", "booked_on: booked", "state", "amount_minor", "rest_minor: left"),
    ValueColumn("payer", lambda each: each.payer, show=lambda each: quoted(each.payer), shrinks=True),
    ValueColumn("reference", lambda each: each.reference, show=lambda each: quoted(each.reference), shrinks=True),
    ValueColumn("invoice_number", lambda each: each.invoice_reference, head="invoice"),
    ValueColumn("next_step", lambda each: each.next_step or None, head="what to do"),
    *columns("mode", "organisation_id", in_table=False),
)
FACTS: tuple[ValueColumn[Transfer], ...] = (
    *COLUMNS[:5],
    *columns("assigned_minor", "returning_minor: to return", "returned_minor", "resolved_minor", "resolution"),
    *COLUMNS[5:8],
    ValueColumn("payer_iban", lambda each: each.payer_iban or None, head="payer's account"),
    ValueColumn("own_account", lambda each: each.own_account or None),
    ValueColumn("end_to_end_id", lambda each: each.end_to_end_id or None),
    *columns("mode", "imported_at: imported", "imported_by"),
    COLUMNS[8],
)
ASSIGNMENTS: tuple[ValueColumn[Assignment], ...] = (
    ValueColumn("id", lambda each: each.id, head="assignment"),
    ValueColumn("invoice_number", lambda each: each.invoice_reference, head="invoice"),
    *columns("amount_minor", "undone", "created_at: assigned"),
    *columns("created_by: by", "note", shrinks=True),
)
DOUBTFUL: tuple[ValueColumn[tuple[DoubtfulLine, Transfer]], ...] = (
    ValueColumn("id", lambda each: each[0].id, head="line"),
    ValueColumn("booked_on", lambda each: each[0].line.booked_on, head="booked"),
    MoneyColumn("amount", lambda each: each[0].line.amount_minor, lambda each: each[0].line.currency),
    ValueColumn("payer", lambda each: each[0].line.payer, show=lambda each: quoted(each[0].line.payer), shrinks=True),
    ValueColumn(
        "reference", lambda each: each[0].line.reference, show=lambda each: quoted(each[0].line.reference), shrinks=True
    ),
    ValueColumn("transfer_id", lambda each: each[1].id, head="resembles"),
    ValueColumn("transfer_payer", lambda each: each[1].payer, head="its payer", shrinks=True),
    ValueColumn("transfer_reference", lambda each: each[1].reference, head="its reference", shrinks=True),
)


@click.group()
def transfer() -> None:
    """Assign bank transfers to invoices, or return the money."""


for _command in RETURN_COMMANDS:
    transfer.add_command(_command)


@transfer.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([*(state.value for state in TransferState), "all"]),
    help="Show transfers in this state; may be repeated.  [default: unmatched, overpaid and to_return]",
)
@click.option("--mode", type=MODE, help="Show only transfers of this mode.")
@click.option("--invoice", help="Show only transfers that name this invoice or paid it: TN-LIVE-000123.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Show only transfers booked on this day or later.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Maximum number.")
@output_options
def list_(
    *,
    states: tuple[str, ...],
    mode: Mode | None,
    invoice: str | None,
    since: datetime | None,
    limit: int,
    output: Output,
) -> None:
    """List the transfers that wait for you, oldest first.

    They are unmatched (no open invoice is named), overpaid (more than the invoice asked for) or to_return.
    """

    async def work(tx: Connection) -> list[Transfer]:
        requested = await find_by_number_any_account(tx, invoice, None) if invoice else None
        chosen = list(TransferState) if "all" in states or (invoice and not states) else [*map(TransferState, states)]
        return await list_transfers_any_account(
            tx,
            chosen or WAITING_STATES,
            mode=mode,
            invoice_id=requested.id if requested else None,
            since=since.date() if since else None,
            limit=limit,
        )

    found = run_in_transaction(work)
    output.print_rows(found, COLUMNS, empty="No transfers." if states or invoice else "No unresolved transfers.")


@transfer.command("show")
@click.argument("transfer_id")
@output_options
def show(transfer_id: str, output: Output) -> None:
    """Show a transfer, its invoices and returns."""

    async def work(tx: Connection) -> tuple[Transfer, list[Assignment], list[BankReturn]]:
        found = await _find(tx, transfer_id)
        assignments = await list_assignments_any_account(tx, found)
        return found, assignments, await list_returns_of_transfer_any_account(tx, found.id)

    found, assignments, returns = run_in_transaction(work)
    tables = (Table("assignments", assignments, ASSIGNMENTS), Table("returns", returns, RETURN_COLUMNS))
    output.print_object(found, FACTS, tables)


@transfer.command("assign")
@click.argument("transfer_id")
@click.argument("numbers", metavar="NUMBER...", nargs=-1, required=True)
@click.option("--amount", help="A part for one invoice, such as 12.61. Without it, as much as each invoice needs.")
@click.option("--note", default="", help="Why, for the audit log.")
def assign(transfer_id: str, numbers: tuple[str, ...], amount: str | None, note: str) -> None:
    """Assign a transfer to invoices, in this order. NUMBER is TN-LIVE-000123.

    An invoice is settled if that pays it.
    """

    async def work(tx: Connection) -> tuple[Transfer, list[Invoice]]:
        found = await _find(tx, transfer_id)
        invoices = [await find_by_number_any_account(tx, number, None) for number in numbers]
        minor = None if amount is None else parse_amount(amount, found.currency)
        return await assign_transfer(tx, found.id, invoices, minor, note=note.strip()[:MAX_REASON], by=ACTOR.now())

    found, invoices = run_in_transaction(work)
    left = f" {found.rest} is left." if found.rest_minor else ""
    paid = ", and to ".join(f"invoice {each.reference}, which is {each.status}" for each in invoices)
    click.echo(f"Transfer {found.id} is assigned to {paid}.{left}")


@transfer.command("unassign")
@click.argument("assignment_id")
@_NOTE
def unassign(assignment_id: str, note: str) -> None:
    """Undo an assignment that `tonne transfer show` lists.

    An invoice that it settled stays paid: its order may have been fulfilled. The next transfer that names the invoice
    is then matched to it.
    """
    undone, found = run_in_transaction(
        unassign_transfer, assignment_id, note=check_text(note, "--note"), by=ACTOR.now()
    )
    click.echo(f"Transfer {found.id} no longer pays invoice {undone.invoice_reference}. {found.rest} is left.")


@transfer.command("resolve")
@click.argument("transfer_id")
@_NOTE
def resolve(transfer_id: str, note: str) -> None:
    """Record that a transfer was dealt with. Moves no money.

    For money that is for no invoice, such as interest, or that somebody returned without Tonne.
    """
    found = run_in_transaction(resolve_transfer, transfer_id, check_text(note, "--note"), by=ACTOR.now())
    click.echo(f"Transfer {found.id} of {found.amount} is resolved.")


@transfer.command("reopen")
@click.argument("transfer_id")
@_NOTE
def reopen(transfer_id: str, note: str) -> None:
    """Undo `tonne transfer resolve` and `tonne payout match`."""
    found = run_in_transaction(reopen_and_unmatch, transfer_id, check_text(note, "--note"), by=ACTOR.now())
    click.echo(f"Transfer {found.id} of {found.amount} waits for a decision again.")


@transfer.command("doubtful")
@click.option("--mode", type=MODE, help="Show only lines of this mode.")
@output_options
def doubtful(mode: Mode | None, output: Output) -> None:
    """List lines that may be known transfers.

    A line of another format may be a transfer that was imported before. They are not counted until you decide with
    `tonne transfer same` or `tonne transfer different`.
    """

    async def work(tx: Connection) -> list[tuple[DoubtfulLine, Transfer]]:
        lines = await list_doubtful_any_account(tx, mode)
        transfers = {each.id: each for each in await find_transfers_any_account(tx, [e.transfer_id for e in lines])}
        return [(line, transfers[line.transfer_id]) for line in lines]

    output.print_rows(run_in_transaction(work), DOUBTFUL, empty="No doubtful lines.")


@transfer.command("same")
@click.argument("line_id")
def same(line_id: str) -> None:
    """Decide that a doubtful line is a known transfer."""
    settings = settings_from_environment()
    found = run_in_transaction(decide_doubtful, line_id, is_same=True, settings=settings, by=ACTOR.now())
    click.echo(f"The line is transfer {found.id}. Nothing was booked.")


@transfer.command("different")
@click.argument("line_id")
def different(line_id: str) -> None:
    """Decide that a doubtful line is a new transfer."""
    settings = settings_from_environment()
    found = run_in_transaction(decide_doubtful, line_id, is_same=False, settings=settings, by=ACTOR.now())
    click.echo(f"The line is the new transfer {found.id} of {found.amount}: {found.state}.")


async def _find(tx: Connection, transfer_id: str) -> Transfer:
    [*found] = await find_transfers_any_account(tx, [transfer_id])
    if not found:
        raise TransferNotFound
    return found[0]
